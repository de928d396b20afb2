// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
	"github.com/berth-scheduler/berth/pkg/diagnose/explain/source"
)

// BenchmarkExplain explains a pod that no node can take, from a file of a large
// cluster as kubectl prints it. BERTH_EXPLAIN_SNAPSHOT=FILE keeps the file.
func BenchmarkExplain(b *testing.B) {
	for _, size := range []struct{ nodes, pods int }{{500, 5_000}, {5_000, 50_000}} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", size.nodes, size.pods), func(b *testing.B) {
			file := os.Getenv("BERTH_EXPLAIN_SNAPSHOT")
			if file == "" {
				file = filepath.Join(b.TempDir(), "cluster.json")
			}
			writeSnapshot(b, file, size.nodes, size.pods)
			b.ReportAllocs()
			for b.Loop() {
				inputs, err := source.Read(b.Context(), &source.Options{
					Namespace: "default", Pod: "waits", Snapshots: []string{file}, Config: "../../../config/berth-scheduler/gpu.yaml",
					Now: time.Unix(0, 0), Parallelism: runtime.GOMAXPROCS(0),
				})
				if err != nil {
					b.Fatal(err)
				}
				x, err := explain.Explain(b.Context(), inputs[0])
				if err != nil {
					b.Fatal(err)
				}
				if x.State != explain.Unschedulable || len(x.Changes) == 0 || x.Nodes != size.nodes {
					b.Fatalf("want changes for a pod that no node can take: %s", x.Answer)
				}
			}
		})
	}
}

// writeSnapshot writes a cluster in which every device is in use by 700 thousandths, and
// a pod that asks for half of one.
func writeSnapshot(b *testing.B, file string, nodes, pods int) {
	b.Helper()
	f, err := os.Create(file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	defer func() {
		if err := out.Flush(); err != nil {
			b.Fatal(err)
		}
	}()
	fmt.Fprint(out, `{"apiVersion":"v1","kind":"List","items":[`)
	first := true
	write := func(object any) {
		b.Helper()
		content, err := json.Marshal(object)
		if err != nil {
			b.Fatal(err)
		}
		if !first {
			fmt.Fprint(out, ",\n")
		}
		first = false
		if _, err := out.Write(content); err != nil {
			b.Fatal(err)
		}
	}
	resources := func(list map[corev1.ResourceName]string) corev1.ResourceList {
		found := corev1.ResourceList{}
		for name, amount := range list {
			found[name] = resource.MustParse(amount)
		}
		return found
	}
	typed := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		capacity := resources(map[corev1.ResourceName]string{"cpu": "96", "memory": "768Gi", "pods": "110"})
		write(&corev1.Node{
			TypeMeta: typed("Node"),
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: uuid.NewUUID(), Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: strconv.Itoa(i % 3), names.GPUSharingLabel: "true",
				"nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "16384", "nvidia.com/gpu.product": "Tesla-T4",
			}},
			Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
		})
	}
	pod := func(name string, milli int) *corev1.Pod {
		share := resources(map[corev1.ResourceName]string{names.GPUMilliResource: strconv.Itoa(milli), "cpu": "1"})
		return &corev1.Pod{
			TypeMeta: typed("Pod"), ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uuid.NewUUID(), Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{SchedulerName: names.Scheduler, Containers: []corev1.Container{{
				Name: "main", Image: "registry.example.com/app", Resources: corev1.ResourceRequirements{Limits: share, Requests: share},
			}}},
		}
	}
	for i := range pods {
		p := pod(fmt.Sprintf("pod-%d", i), 700)
		if i >= 4*nodes {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		} else {
			p.Annotations = map[string]string{
				names.GPUAssignedAnnotation:               fmt.Sprintf("main=%d:700m:11468Mi", i/nodes),
				names.GPUDevicesAnnotationPrefix + "main": strconv.Itoa(i / nodes),
			}
		}
		p.Spec.NodeName = fmt.Sprintf("node-%d", i%nodes)
		asOnServer(p)
		write(p)
	}
	write(pod("waits", 500))
	fmt.Fprint(out, "]}\n")
}

// asOnServer adds what an API server, its admission and a kubelet add.
func asOnServer(p *corev1.Pod) {
	since := metav1.NewTime(time.Unix(1_700_000_000, 0))
	p.CreationTimestamp, p.GenerateName, p.ResourceVersion = since, "web-5d78c9869d-", "123456789"
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d78c9869d", UID: uuid.NewUUID(), Controller: new(true), BlockOwnerDeletion: new(true)}}
	seconds := new(int64(300))
	p.Spec.Tolerations = []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds},
	}
	p.Spec.ServiceAccountName, p.Spec.RestartPolicy, p.Spec.DNSPolicy = "default", corev1.RestartPolicyAlways, corev1.DNSClusterFirst
	p.Spec.Priority, p.Spec.PreemptionPolicy = new(int32(0)), new(corev1.PreemptLowerPriority)
	p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
	}}}}}
	c := &p.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access-x7k2p", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
	c.TerminationMessagePath, c.TerminationMessagePolicy, c.ImagePullPolicy = "/dev/termination-log", corev1.TerminationMessageReadFile, corev1.PullIfNotPresent
	for i := range 8 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: "https://service.namespace.svc.cluster.local:8443/path"})
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "10.0.0.1", PodIP: "10.1.0.1", PodIPs: []corev1.PodIP{{IP: "10.1.0.1"}}, StartTime: &since, QOSClass: corev1.PodQOSBurstable}
	for _, condition := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: since})
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Image: c.Image, Ready: true, Started: new(true), ContainerID: "containerd://" + string(uuid.NewUUID()), ImageID: c.Image + "@sha256:" + string(uuid.NewUUID()),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}},
	}}
}
