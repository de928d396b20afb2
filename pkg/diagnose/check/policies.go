// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/manifests"
	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/plugins/colocation"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// guarded is a feature that admission policies belong to.
type guarded struct {
	// feature is its name in a finding, and component the folder of its policies.
	feature, component string
	// severity is that of a policy that is missing.
	severity Severity
	// usedBy returns the schedulerNames of the profiles with the feature.
	usedBy func(*settings.Profile) []string
	// needed is whether the cluster has what the policies guard; nil if it always has.
	needed func(*checker) bool
	// mentions are what a policy has to name, by the policy's name: it does not fit the
	// profile otherwise.
	mentions func(*runningScheduler) map[string][]string
	// leftover says what becomes of pods where the policies are bound and no profile has
	// the feature; empty if nothing does.
	leftover string
}

// value is the name of the feature in the values of the chart.
func (g *guarded) value() string { return path.Base(g.component) }

const (
	tenancyComponent  = "components/tenancy"
	tenancyPods       = "berth-tenancy-pods"
	tenancyBindings   = "berth-tenancy-bindings"
	tenancyNamespaces = "berth-tenancy-namespaces"
	tenancyNodes      = "berth-tenancy-nodes"
	gpuDevices        = "berth-gpu-devices"
)

func guardedFeatures() []guarded {
	return []guarded{
		{
			feature: "tenancy", component: tenancyComponent, severity: Error, usedBy: withTenancy,
			mentions: func(s *runningScheduler) map[string][]string {
				t := tenancies(s.profile)[0]
				bindings := []string{t.NamespaceLabelKey}
				if s.account.User != "" {
					bindings = append(bindings, s.account.User)
				}
				return map[string][]string{
					tenancyPods:       append(withTenancy(s.profile), t.NamespaceLabelKey, t.NodeTaintKey),
					tenancyBindings:   bindings,
					tenancyNamespaces: {t.NamespaceLabelKey},
					tenancyNodes:      {t.NodeLabelKey, t.NodeTaintKey},
				}
			},
			leftover: "the pods of tenants are refused or wait, and nodes of tenants take none",
		},
		{
			feature: gpudevice.Name, component: "components/gpu", severity: Warning,
			usedBy: func(p *settings.Profile) []string { return registry.ProfilesRunning(p.Effective, gpudevice.Name) },
			needed: (*checker).hasSharedNode,
			mentions: func(s *runningScheduler) map[string][]string {
				return map[string][]string{gpuDevices: registry.ProfilesRunning(s.profile.Effective, gpudevice.Name)}
			},
			leftover: "pods that ask for shares of devices wait",
		},
		{
			feature: colocation.Name, component: "components/colocation", severity: Warning,
			usedBy: func(p *settings.Profile) []string { return registry.ProfilesRunning(p.Effective, colocation.Name) },
		},
	}
}

// tenancies returns the tenancy of each profile that has one.
func tenancies(p *settings.Profile) []*config.LabelPresenceTenancy {
	var found []*config.LabelPresenceTenancy
	for i := range p.Config.Profiles {
		if t := registry.TenancyOf(&p.Config.Profiles[i]); t != nil {
			found = append(found, t)
		}
	}
	return found
}

func withTenancy(p *settings.Profile) []string {
	var served []string
	for i := range p.Config.Profiles {
		if registry.TenancyOf(&p.Config.Profiles[i]) != nil {
			served = append(served, p.Config.Profiles[i].SchedulerName)
		}
	}
	return served
}

// policyKey is a policy, by its kind and name.
type policyKey struct{ kind, name string }

func (k policyKey) String() string { return k.kind + " " + k.name }

const (
	validating = "ValidatingAdmissionPolicy"
	mutating   = "MutatingAdmissionPolicy"
)

// policies are what a cluster has, or a component of the manifests.
type policies struct {
	// seen are the kinds that could be read.
	seen     map[string]bool
	policies map[policyKey]*policy
	bindings map[policyKey][]binding
}

// policy is what validating and mutating policies have in common.
type policy struct {
	// text is everything that it says.
	text       string
	failure    *admissionv1.FailurePolicyType
	match      *admissionv1.MatchResources
	conditions []admissionv1.MatchCondition
}

// binding is what the bindings of both have in common.
type binding struct {
	name  string
	match *admissionv1.MatchResources
	// actions are those of a validating policy.
	actions []admissionv1.ValidationAction
}

func newPolicies() *policies {
	return &policies{seen: map[string]bool{}, policies: map[policyKey]*policy{}, bindings: map[policyKey][]binding{}}
}

// text is everything that a policy says; empty if there is none of the name.
func (p *policies) text(key policyKey) string {
	if found := p.policies[key]; found != nil {
		return found.text
	}
	return ""
}

// checkPolicies finds admission policies that are missing, that are not bound, that do
// not fit the profile, or that are left over.
func (c *checker) checkPolicies() {
	cluster := c.listPolicies()
	for _, feature := range guardedFeatures() {
		shipped, err := shippedPolicies(feature.component)
		if err != nil {
			c.err = err
			return
		}
		users := c.that(func(s *runningScheduler) bool { return len(feature.usedBy(s.profile)) > 0 })
		keys := slices.DeleteFunc(shipped.keys(), func(key policyKey) bool { return !cluster.seen[key.kind] })
		if len(users) == 0 {
			c.findLeftover(&feature, keys, cluster)
			continue
		}
		for _, key := range keys {
			if feature.needed == nil || feature.needed(c) {
				c.checkPolicy(&feature, users[0], key, shipped, cluster)
			}
		}
		if feature.mentions != nil {
			for _, s := range users {
				c.checkFit(&feature, s, cluster)
			}
		}
	}
}

// checkPolicy finds a policy that is missing, not bound, or that does not cover what it is for.
func (c *checker) checkPolicy(feature *guarded, user *runningScheduler, key policyKey, shipped, cluster *policies) {
	f := Finding{Severity: feature.severity, Object: key.String(), WayOut: user.by.or(
		"apply manifests/"+feature.component+" as part of the overlay that is installed",
		user.by.upgrade(fmt.Sprintf("features.%[1]s=true, and %[1]s among policies.create,", feature.value())),
	)}
	bound := cluster.bindings[key]
	switch {
	case cluster.policies[key] == nil:
		f.Message = fmt.Sprintf("is not installed, but %s uses %s: requests that a scheduler cannot reject are admitted", user.object, feature.feature)
	case len(bound) == 0:
		f.Message = fmt.Sprintf("is not bound (%sBinding) and has no effect, but %s uses %s", key.kind, user.object, feature.feature)
	default:
		if f.Field, f.Message = c.gapOfPolicy(feature, user, cluster.policies[key], shipped.policies[key]); f.Message != "" {
			break
		}
		f.Object = key.kind + "Binding of " + key.name
		for i := range bound {
			if f.Field, f.Message = c.gapOfBinding(feature, user, &bound[i], shipped, key); f.Message == "" {
				return // one that is as it should be is enough
			}
		}
	}
	c.found(f)
}

// checkFit finds policies that do not name what the profile has.
func (c *checker) checkFit(feature *guarded, s *runningScheduler, cluster *policies) {
	mentions := feature.mentions(s)
	for _, name := range slices.Sorted(maps.Keys(mentions)) {
		key := policyKey{validating, name}
		for _, word := range mentions[name] {
			if text := cluster.text(key); text != "" && !strings.Contains(text, "'"+word+"'") {
				c.found(Finding{
					Error, key.String(), "spec", fmt.Sprintf("does not match %s: it does not mention %q", s.profile.Source, word),
					s.by.or(
						"generate the policies from the profile (hack/tenancypolicies, or settings.yaml of components/gpu) and apply them",
						s.by.upgrade(feature.value()+" among policies.create, or this instance among policies.otherInstances of the release that has it there,"),
					),
				})
			}
		}
	}
}

// findLeftover finds policies of a feature that no scheduler has.
func (c *checker) findLeftover(feature *guarded, shipped []policyKey, cluster *policies) {
	if feature.leftover == "" || len(c.schedulers) == 0 || !c.schedulersSeen {
		return
	}
	by := c.installation()
	for _, key := range shipped {
		if len(cluster.bindings[key]) > 0 && cluster.policies[key] != nil {
			c.found(Finding{
				feature.severity, key.String(), "", fmt.Sprintf("is bound, but no scheduler here uses %s: %s", feature.feature, feature.leftover),
				by.or("apply an overlay with manifests/"+feature.component, by.upgrade(fmt.Sprintf("features.%s=true", feature.value()))) + ", or delete the binding",
			})
		}
	}
}

// keys are the policies, sorted.
func (p *policies) keys() []policyKey {
	return slices.SortedFunc(maps.Keys(p.policies), func(a, b policyKey) int { return strings.Compare(a.String(), b.String()) })
}

// shippedPolicies returns the policies of a component of the manifests, with their bindings.
func shippedPolicies(component string) (*policies, error) {
	shipped := newPolicies()
	files, err := fs.Glob(manifests.Policies, component+"/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		content, err := manifests.Policies.ReadFile(file)
		if err != nil {
			return nil, err
		}
		reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			var object metav1.TypeMeta
			if err == nil {
				document, err = yaml.YAMLToJSON(document)
			}
			if err == nil {
				err = json.Unmarshal(document, &object)
			}
			if err == nil {
				err = shipped.add(object.Kind, document)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return shipped, nil
}

// add adds a policy or a binding, and nothing for an object of another kind.
func (p *policies) add(kind string, content []byte) error {
	var object struct {
		metav1.ObjectMeta `json:"metadata"`

		Spec json.RawMessage `json:"spec"`
	}
	of, isBinding := strings.CutSuffix(kind, "Binding")
	if of != validating && of != mutating {
		return nil
	}
	if err := json.Unmarshal(content, &object); err != nil {
		return err
	}
	// The specs of both kinds, and of their bindings, have the same fields as far as they
	// are compared.
	var spec struct {
		FailurePolicy    *admissionv1.FailurePolicyType `json:"failurePolicy"`
		MatchConstraints *admissionv1.MatchResources    `json:"matchConstraints"`
		MatchConditions  []admissionv1.MatchCondition   `json:"matchConditions"`

		PolicyName        string                         `json:"policyName"`
		MatchResources    *admissionv1.MatchResources    `json:"matchResources"`
		ValidationActions []admissionv1.ValidationAction `json:"validationActions"`
	}
	if err := json.Unmarshal(object.Spec, &spec); err != nil {
		return err
	}
	if !isBinding {
		p.policies[policyKey{kind, object.Name}] = &policy{string(object.Spec), spec.FailurePolicy, spec.MatchConstraints, spec.MatchConditions}
		return nil
	}
	if of == mutating { // its bindings have no actions
		spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
	}
	key := policyKey{of, spec.PolicyName}
	p.bindings[key] = append(p.bindings[key], binding{object.Name, spec.MatchResources, spec.ValidationActions})
	return nil
}

// listPolicies reads what the cluster has, as far as it may be read.
func (c *checker) listPolicies() *policies {
	p := newPolicies()
	for _, kind := range []string{validating, mutating} {
		resource := strings.ToLower(kind)
		err := c.listInto(p, kind, strings.TrimSuffix(resource, "y")+"ies")
		if err == nil {
			err = c.listInto(p, kind+"Binding", resource+"bindings")
		}
		p.seen[kind] = c.seen("objects of kind "+kind+" and their bindings", err)
	}
	return p
}

// listInto adds the objects of one resource.
func (c *checker) listInto(p *policies, kind, resource string) error {
	result := c.client.AdmissionregistrationV1().RESTClient().Get().Resource(resource).SetHeader("Accept", runtime.ContentTypeJSON).Do(c.ctx)
	if err := result.Error(); err != nil {
		return err
	}
	content, err := result.Raw()
	if err != nil {
		return err
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(content, &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		if err := p.add(kind, item); err != nil {
			return err
		}
	}
	return nil
}
