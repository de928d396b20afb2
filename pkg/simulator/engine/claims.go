// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/berth-scheduler/berth/pkg/cluster"
)

// claimStore is the ResourceClaims as the API server has them. Each write gets a newer
// resourceVersion: the plugins' cache of claims drops what is not newer.
type claimStore struct {
	informer *informer
	newest   int64
}

// claimResource is the plural of ResourceClaims.
const claimResource = "resourceclaims"

// get returns the claim, nil if it is not there.
func (s *claimStore) get(namespace, name string) *resourcev1.ResourceClaim {
	obj, ok, err := s.informer.GetIndexer().GetByKey(types.NamespacedName{Namespace: namespace, Name: name}.String())
	if err != nil || !ok {
		return nil
	}
	claim, _ := obj.(*resourcev1.ResourceClaim)
	return claim
}

// load makes a claim of the input known. Its resourceVersion stays if it has one.
func (s *claimStore) load(claim *resourcev1.ResourceClaim) error {
	version, err := strconv.ParseInt(claim.ResourceVersion, 10, 64)
	if err != nil {
		_, err = s.write(claim)
		return err
	}
	s.newest = max(s.newest, version)
	return s.informer.set(claim, true)
}

// write stores a claim, and returns it as it is stored: a copy, which a plugin may change.
func (s *claimStore) write(claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	s.newest++
	claim = claim.DeepCopy()
	claim.ResourceVersion = strconv.FormatInt(s.newest, 10)
	return claim.DeepCopy(), s.informer.set(claim, false)
}

// create stores a new claim under its name or, as an API server does, under one that begins
// with generateName. The name depends on seed alone.
func (s *claimStore) create(claim *resourcev1.ResourceClaim, seed string) (*resourcev1.ResourceClaim, error) {
	claim = claim.DeepCopy()
	for i := 0; claim.Name == ""; i++ {
		hash := fnv.New32a()
		fmt.Fprintf(hash, "%s/%d", seed, i)
		if name := claim.GenerateName + rand.SafeEncodeString(fmt.Sprintf("%05d", hash.Sum32()%100_000)); s.get(claim.Namespace, name) == nil {
			claim.Name = name
		}
	}
	claim.UID = types.UID(claimResource + "/" + seed + "/" + claim.Name)
	return s.write(claim)
}

// serve answers what plugins send about claims, which Reserve, PreBind and PostFilter of
// DynamicResources do.
func (s *claimStore) serve(action clienttesting.Action) (runtime.Object, error) {
	switch action := action.(type) {
	case clienttesting.CreateAction: // an update is one, too
		claim, ok := action.GetObject().(*resourcev1.ResourceClaim)
		if !ok {
			break
		}
		if action.GetVerb() == "create" {
			return s.create(claim, claim.GenerateName)
		}
		if s.get(claim.Namespace, claim.Name) == nil {
			return nil, s.notFound(claim.Name)
		}
		setBindingConditions(claim)
		return s.write(claim)
	case clienttesting.PatchAction:
		claim := s.get(action.GetNamespace(), action.GetName())
		if claim == nil {
			return nil, s.notFound(action.GetName())
		}
		patched := &resourcev1.ResourceClaim{}
		if err := mergePatch(claim, action.GetPatch(), patched); err != nil {
			return nil, err
		}
		return s.write(patched)
	case clienttesting.DeleteAction:
		if claim := s.get(action.GetNamespace(), action.GetName()); claim != nil {
			return nil, s.informer.remove(claim)
		}
		return nil, s.notFound(action.GetName())
	case clienttesting.GetAction:
		if claim := s.get(action.GetNamespace(), action.GetName()); claim != nil {
			return claim.DeepCopy(), nil
		}
		return nil, s.notFound(action.GetName())
	}
	return nil, apierrors.NewMethodNotSupported(resourcev1.Resource(claimResource), action.GetVerb()+" (the simulator has no API server)")
}

func (*claimStore) notFound(name string) error {
	return apierrors.NewNotFound(resourcev1.Resource(claimResource), name)
}

// mergePatch applies a strategic merge patch.
func mergePatch[T any](object T, patch []byte, result T) error {
	before, err := json.Marshal(object)
	if err != nil {
		return err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, object)
	if err != nil {
		return err
	}
	return json.Unmarshal(after, result)
}

// setBindingConditions makes allocated devices ready, as their driver would do while
// PreBind waits: no driver runs here.
func setBindingConditions(claim *resourcev1.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		known := func(d resourcev1.AllocatedDeviceStatus) bool {
			return d.Driver == result.Driver && d.Pool == result.Pool && d.Device == result.Device
		}
		if len(result.BindingConditions) == 0 || slices.ContainsFunc(claim.Status.Devices, known) {
			continue
		}
		device := resourcev1.AllocatedDeviceStatus{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
		if result.ShareID != nil {
			id := string(*result.ShareID)
			device.ShareID = &id
		}
		for _, condition := range result.BindingConditions {
			apimeta.SetStatusCondition(&device.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Simulated"})
		}
		claim.Status.Devices = append(claim.Status.Devices, device)
	}
}

// createClaims makes the ResourceClaims of the pod's templates that are not there yet, and
// returns the pod with their names in its status: what kube-controller-manager does. A
// template that is not there is left out ([Engine.withMissingTemplate]).
func (e *Engine) createClaims(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	var updated *corev1.Pod
	for i := range pod.Spec.ResourceClaims {
		podClaim := &pod.Spec.ResourceClaims[i]
		template := e.templateOf(pod, podClaim)
		if template == nil || !e.lacksClaim(pod, podClaim) {
			continue
		}
		claim, err := e.claims.create(newClaim(pod, podClaim.Name, template), string(pod.UID)+"/"+podClaim.Name)
		if err != nil {
			return nil, err
		}
		if updated == nil {
			updated = pod.DeepCopy()
		}
		updated.Status.ResourceClaimStatuses = append(slices.DeleteFunc(updated.Status.ResourceClaimStatuses, func(s corev1.PodResourceClaimStatus) bool {
			return s.Name == podClaim.Name
		}), corev1.PodResourceClaimStatus{Name: podClaim.Name, ResourceClaimName: &claim.Name})
	}
	if updated == nil {
		return pod, nil
	}
	return updated, e.updatePending(ctx, pod, updated)
}

// newClaim returns the claim that a pod gets of a template.
func newClaim(pod *corev1.Pod, name string, template *resourcev1.ResourceClaimTemplate) *resourcev1.ResourceClaim {
	annotations := map[string]string{resourcev1.PodResourceClaimAnnotation: name}
	maps.Copy(annotations, template.Spec.Annotations)
	prefix := pod.Name + "-" + name + "-"
	const longest = 57 // leaves room for the suffix
	if length := len(prefix); length > longest {
		prefix = pod.Name[:len(pod.Name)*longest/length] + "-" + name[:len(name)*longest/length]
	}
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: prefix, Namespace: pod.Namespace, Labels: template.Spec.Labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: *template.Spec.Spec.DeepCopy(),
	}
}

// lacksClaim reports whether the claim of a template has to be made for the pod.
func (e *Engine) lacksClaim(pod *corev1.Pod, podClaim *corev1.PodResourceClaim) bool {
	name, checkOwner, err := resourceclaim.Name(pod, podClaim)
	if err != nil {
		return true
	}
	if name == nil {
		return false // the controller found that none is needed
	}
	claim := e.claims.get(pod.Namespace, *name)
	return claim == nil || checkOwner && !metav1.IsControlledBy(claim, pod)
}

// templateOf returns the template of a pod's claim; nil if the pod names a claim, or if the
// template is not there.
func (e *Engine) templateOf(pod *corev1.Pod, podClaim *corev1.PodResourceClaim) *resourcev1.ResourceClaimTemplate {
	if podClaim.ResourceClaimTemplateName == nil {
		return nil
	}
	key := types.NamespacedName{Namespace: pod.Namespace, Name: *podClaim.ResourceClaimTemplateName}
	obj, ok, err := e.informers.byResource["resourceclaimtemplates"].GetIndexer().GetByKey(key.String())
	if err != nil || !ok {
		return nil
	}
	template, _ := obj.(*resourcev1.ResourceClaimTemplate)
	return template
}

// withMissingTemplate adds to the message of a PreEnqueue plugin that a template is not there.
func (e *Engine) withMissingTemplate(pod *corev1.Pod, message string) string {
	for i := range pod.Spec.ResourceClaims {
		podClaim := &pod.Spec.ResourceClaims[i]
		if message != "" && podClaim.ResourceClaimTemplateName != nil && e.templateOf(pod, podClaim) == nil && e.lacksClaim(pod, podClaim) {
			return fmt.Sprintf("%s: spec.resourceClaims[%d].resourceClaimTemplateName: ResourceClaimTemplate %q does not exist in namespace %q", message, i, *podClaim.ResourceClaimTemplateName, pod.Namespace)
		}
	}
	return message
}

// releaseClaims does about the claims of a pod that is gone what kube-controller-manager
// and the garbage collector do: the pod's own claims go, and of others it is no longer a
// consumer. A claim without consumers loses its allocation.
func (e *Engine) releaseClaims(pod *corev1.Pod) error {
	for _, name := range cluster.ClaimsOf(pod) {
		claim := e.claims.get(pod.Namespace, name)
		if claim == nil {
			continue
		}
		if metav1.IsControlledBy(claim, pod) {
			if err := e.claims.informer.remove(claim); err != nil {
				return err
			}
			continue
		}
		remaining := slices.DeleteFunc(slices.Clone(claim.Status.ReservedFor), func(r resourcev1.ResourceClaimConsumerReference) bool {
			return r.APIGroup == "" && r.Resource == "pods" && r.Name == pod.Name
		})
		if len(remaining) == len(claim.Status.ReservedFor) {
			continue
		}
		updated := claim.DeepCopy()
		if updated.Status.ReservedFor = remaining; len(remaining) == 0 {
			updated.Status.Allocation, updated.Status.Devices = nil, nil
			updated.Finalizers = slices.DeleteFunc(updated.Finalizers, func(f string) bool { return f == resourcev1.Finalizer })
		}
		if _, err := e.claims.write(updated); err != nil {
			return err
		}
	}
	return nil
}

// Claims returns the ResourceClaims of a pod as the API server would have them now. They
// are shared with the engine and must not be changed.
func (e *Engine) Claims(pod *corev1.Pod) []*resourcev1.ResourceClaim {
	var claims []*resourcev1.ResourceClaim
	for _, name := range cluster.ClaimsOf(pod) {
		if claim := e.claims.get(pod.Namespace, name); claim != nil {
			claims = append(claims, claim)
		}
	}
	return claims
}

// RunPreBindPlugins runs them, but for VolumeBinding's, which waits for controllers that are
// not here. The others write what Reserve has decided: the allocations of claims.
func (f cycleFramework) RunPreBindPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	for _, enabled := range f.ListPlugins().PreBind.Enabled {
		plugin, ok := f.cycle.engine.instances[f.ProfileName()][enabled.Name].(fwk.PreBindPlugin)
		if !ok || enabled.Name == pluginnames.VolumeBinding {
			continue
		}
		if status := plugin.PreBind(ctx, state, pod, node); !status.IsSuccess() {
			return fwk.AsStatus(fmt.Errorf("running PreBind plugin %q: %w", enabled.Name, status.AsError())).WithPlugin(enabled.Name)
		}
	}
	return nil
}

// patchPodStatus takes what DynamicResources writes into the status of a pod: which claim
// stands for its extended resources. What else is patched, nothing reads.
func (e *Engine) patchPodStatus(namespace, name string, patch []byte) error {
	pod := e.Pod(namespace, name)
	if pod == nil {
		return nil
	}
	patched := &corev1.Pod{}
	if err := mergePatch(pod, patch, patched); err != nil {
		return fmt.Errorf("pod %s: status: %w", klog.KObj(pod), err)
	}
	if patched.Status.ExtendedResourceClaimStatus == nil || pod.Status.ExtendedResourceClaimStatus != nil {
		return nil
	}
	updated := pod.DeepCopy()
	updated.Status.ExtendedResourceClaimStatus = patched.Status.ExtendedResourceClaimStatus
	return e.informers.byResource["pods"].set(updated, false)
}
