// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/labelpresence"
)

// checkTenancy checks what no profile can know alone. Tenancy holds in a cluster
// only if whoever places pods keeps it, so of one scheduler either all profiles
// have the same tenancy, or none has one. And a schedulerName that ends in
// [names.TenancySuffix] is a promise: the admission policies let the pods of such
// a profile tolerate the taint of tenants' nodes.
func checkTenancy(cfg *schedconfig.KubeSchedulerConfiguration) field.ErrorList {
	var errs field.ErrorList
	first := -1
	for i := range cfg.Profiles {
		if first < 0 && tenancyOf(&cfg.Profiles[i]) != nil {
			first = i
		}
	}
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		path := field.NewPath("profiles").Index(i)
		tenancyPath := path.Child("pluginConfig").Key(labelpresence.Name).Child("args", "tenancy")
		tenancy := tenancyOf(profile)
		switch {
		case tenancy == nil && strings.HasSuffix(profile.SchedulerName, names.TenancySuffix):
			errs = append(errs, field.Required(tenancyPath, fmt.Sprintf(
				"the name of the profile, %q, ends in %q, and tenancy's admission policies trust such a profile to keep every pod off other tenants' nodes: give it tenancy, or another name",
				profile.SchedulerName, names.TenancySuffix)))
		case tenancy == nil && first >= 0:
			errs = append(errs, field.Required(tenancyPath, fmt.Sprintf(
				"profiles[%d] (%q) has tenancy, and this profile would place pods on the nodes of any tenant: give both the same tenancy, or run the two profiles in two schedulers, each with its own nodes",
				first, cfg.Profiles[first].SchedulerName)))
		case tenancy != nil:
			errs = append(errs, compareTenancy(tenancyPath, tenancy, first, tenancyOf(&cfg.Profiles[first]))...)
			if !cfg.LeaderElection.LeaderElect && !tenancy.AllowNoLeaderElection {
				errs = append(errs, field.Invalid(field.NewPath("leaderElection", "leaderElect"), false, fmt.Sprintf(
					"profiles[%d] (%q) has tenancy, and without leader election a process with an older tenancy may place pods beside this one: elect a leader, or accept it with %s: true",
					i, profile.SchedulerName, tenancyPath.Child("allowNoLeaderElection"))))
			}
		}
	}
	return errs
}

// tenancyOf returns the tenancy of a profile, or nil.
func tenancyOf(profile *schedconfig.KubeSchedulerProfile) *config.LabelPresenceTenancy {
	for i := range profile.PluginConfig {
		if args, ok := profile.PluginConfig[i].Args.(*config.LabelPresenceArgs); ok && profile.PluginConfig[i].Name == labelpresence.Name {
			return args.Tenancy
		}
	}
	return nil
}

// compareTenancy refuses each field in which a tenancy differs from that of the
// first profile that has one.
func compareTenancy(path *field.Path, tenancy *config.LabelPresenceTenancy, first int, want *config.LabelPresenceTenancy) field.ErrorList {
	var errs field.ErrorList
	compare := func(name string, same bool, value, wanted any) {
		if !same {
			errs = append(errs, field.Invalid(path.Child(name), value, fmt.Sprintf(
				"must be as in profiles[%d], %v: to whom a node belongs is one question with one answer", first, wanted)))
		}
	}
	compare("nodeLabelKey", tenancy.NodeLabelKey == want.NodeLabelKey, tenancy.NodeLabelKey, want.NodeLabelKey)
	compare("nodeTaintKey", tenancy.NodeTaintKey == want.NodeTaintKey, tenancy.NodeTaintKey, want.NodeTaintKey)
	compare("namespaceLabelKey", tenancy.NamespaceLabelKey == want.NamespaceLabelKey, tenancy.NamespaceLabelKey, want.NamespaceLabelKey)
	compare("tenants", tenancy.Tenants == want.Tenants, tenancy.Tenants, want.Tenants)
	compare("exemptNamespaces", sets.New(tenancy.ExemptNamespaces...).Equal(sets.New(want.ExemptNamespaces...)), tenancy.ExemptNamespaces, want.ExemptNamespaces)
	return errs
}
