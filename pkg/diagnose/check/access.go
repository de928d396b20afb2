// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"

	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// checkServed finds resources that are not served and that a profile needs.
func (c *checker) checkServed() {
	for _, s := range c.schedulers {
		missing, err := settings.Unserved(c.client, registry.CustomResources(s.profile.Effective))
		if !c.seen("what the API server serves", err) {
			return
		}
		if problem, err := settings.PodGroupsServed(c.client, s.profile.Flags.Enabled); err == nil && problem != nil {
			f := Finding{Severity: Error, Object: s.object, Field: argsField}
			f.Message, f.WayOut = splitWayOut(problem.Error(), "")
			c.found(f)
		}
		for _, resource := range missing {
			c.found(Finding{
				Error, "CustomResourceDefinition " + resource.GroupResource().String(), "",
				fmt.Sprintf("is not served, and %s of %s watches it: no pod is scheduled", resource.Plugin, s.object),
				s.by.or(fmt.Sprintf("install it (%s), or disable the plugin", resource.Definition), s.by.upgrade("gang.installCRD=true or gang.by=Kubernetes")),
			})
		}
	}
}

// checkRights finds rights that a scheduler lacks.
func (c *checker) checkRights() {
	for _, s := range c.schedulers {
		rights := settings.Rights(s.profile.Config, s.profile.Effective, s.profile.Flags.Enabled)
		if s.deployment != "" {
			rights = append(rights, preflight.ServingRights(true)...)
		}
		who := cmp.Or(s.account.User, "this credential")
		missing, err := preflight.Missing(c.ctx, c.client, s.account, rights)
		if !c.seen("the permissions of "+who, err) {
			continue
		}
		if len(missing) == len(rights) && len(missing) > 0 {
			c.found(Finding{
				Error, "User " + who, "", fmt.Sprintf("%s runs as this user, which has none of the %d permissions that it needs, such as %s: no role binding names it", s.object, len(rights), rights[0]),
				s.by.or("bind the roles of manifests/base/rbac.yaml to it, or correct the binding's subject", s.by.upgrade("")),
			})
			continue
		}
		for _, right := range missing {
			c.found(Finding{
				Error, "User " + who, "", fmt.Sprintf("%s runs as this user, which has no permission to %s: %s", s.object, right, right.Why),
				s.by.or("grant the permission, for example with manifests/base/rbac.yaml or the component's rbac.yaml", s.by.upgrade("")),
			})
		}
	}
}
