// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/controlplane"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// TestInsteadOfTheClustersScheduler lets kubeadm itself patch its manifest, and
// runs the result beside a stock scheduler that is about to be replaced: Berth
// waits while the other one holds the lease, and takes over when it stops.
func TestInsteadOfTheClustersScheduler(t *testing.T) {
	c := framework.Start(t, framework.Options{NodeCount: 2})
	credential := c.StockSchedulerKubeconfig(t)
	stock := framework.StartProcess(t, framework.KubeScheduler,
		"--kubeconfig="+credential, "--secure-port=0", "--leader-elect=true")
	before := waitForHolder(t, c, metav1.NamespaceSystem, "kube-scheduler", "")

	berth := startStaticPod(t, c, "default-scheduler.yaml", credential)
	berth.WaitReady(t)

	c.CreatePod(t, framework.Pod("default", "before", ""))
	c.WaitForPodScheduled(t, "default", "before")
	if now := waitForHolder(t, c, metav1.NamespaceSystem, "kube-scheduler", ""); now != before {
		t.Fatalf("the lease went from %s to %s while the stock scheduler was running", before, now)
	}

	stock.Stop(t)
	c.CreatePod(t, framework.Pod("default", "after", ""))
	c.WaitForPodScheduled(t, "default", "after")
	waitForHolder(t, c, metav1.NamespaceSystem, "kube-scheduler", before)
	if strings.Contains(berth.Output(), "forbidden") {
		t.Errorf("the scheduler was forbidden something:\n%s", berth.Output())
	}
}

// TestAllPluginsInsteadOfTheClustersScheduler runs the static pod with the profile of
// all plugins: without Colocation's right it says what grants it, and with what
// manifests/kubeadm installs it places plain pods and shares alike.
func TestAllPluginsInsteadOfTheClustersScheduler(t *testing.T) {
	const profile = "default-scheduler-all.yaml"
	gpu := node("gpu", "4")
	gpu.Labels = map[string]string{
		names.GPUSharingLabel: "true", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "40960", "nvidia.com/gpu.product": "NVIDIA-A100",
	}
	c := framework.Start(t, framework.Options{Nodes: []corev1.Node{node("plain", "4"), gpu}})
	credential := c.StockSchedulerKubeconfig(t)
	// The first and only scheduler of this cluster.
	const sole = "--sole-default-scheduler"
	failed := startStaticPod(t, c, profile, credential, sole)
	if code := failed.Wait(t, framework.WaitTimeout); code == 0 {
		t.Error("without the right to read EndpointSlices the scheduler ended with code 0")
	}
	for _, want := range []string{"list endpointslices.discovery.k8s.io", "manifests/kubeadm/rbac-colocation.yaml"} {
		if !strings.Contains(failed.Output(), want) {
			t.Errorf("the output does not contain %q:\n%s", want, failed.Output())
		}
	}

	install.Apply(t, c, "kubeadm")
	c.Apply(t, "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}, handler: nvidia}")
	startStaticPod(t, c, profile, credential, sole).WaitReady(t)
	c.CreatePod(t, framework.Pod("default", "plain", ""))
	if got := c.WaitForPodScheduled(t, "default", "plain").Spec.NodeName; got != "plain" {
		t.Errorf("a pod without devices went to %s", got)
	}
	share := func(name, schedulerName string) *corev1.Pod {
		pod := framework.Pod("default", name, "")
		pod.Spec.SchedulerName = schedulerName
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{names.GPUMilliResource: resource.MustParse("500")}
		return pod
	}
	// The policies know under which name shares are given out here.
	framework.WaitForCondition(t, framework.WaitTimeout, "the policy on devices", func() (bool, error) {
		_, err := c.Client.CoreV1().Pods("default").Create(t.Context(), share("other", names.Scheduler), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "spec.schedulerName: must be one of [default-scheduler]"), err
	})
	c.CreatePod(t, share("share", ""))
	got := c.WaitForPodScheduled(t, "default", "share")
	if placement := framework.Placement(got); placement != "gpu/0" {
		t.Errorf("the share went to %s", placement)
	}
}

// startStaticPod runs what kubeadm makes of its static pod, with a profile of
// config/berth-scheduler and further arguments, as the cluster's own scheduler.
func startStaticPod(t *testing.T, c *framework.Cluster, profile, credential string, args ...string) *framework.Scheduler {
	t.Helper()
	pod := patchedStaticPod(t, &kubeadmapi.ClusterConfiguration{})
	container := pod.Spec.Containers[0]
	root := t.TempDir()
	mountHostPaths(t, pod, root, profile)
	return install.StartBinary(t, c, install.Options{
		Binary:     container.Command[0],
		Args:       append(container.Command[1:], args...),
		Root:       root,
		Kubeconfig: credential,
	})
}

// TestClusterConfigurationIsKept: what the cluster's configuration says of the
// scheduler is in Berth's static pod too.
func TestClusterConfigurationIsKept(t *testing.T) {
	pod := patchedStaticPod(t, &kubeadmapi.ClusterConfiguration{Scheduler: kubeadmapi.ControlPlaneComponent{
		ExtraArgs:    []kubeadmapi.Arg{{Name: "profiling", Value: "false"}, {Name: "bind-address", Value: "0.0.0.0"}},
		ExtraVolumes: []kubeadmapi.HostPathMount{{Name: "extra", HostPath: "/srv/extra", MountPath: "/extra", ReadOnly: true}},
		ExtraEnvs:    []kubeadmapi.EnvVar{{EnvVar: corev1.EnvVar{Name: "GOGC", Value: "50"}}},
	}})
	container := pod.Spec.Containers[0]
	want := []string{
		"berth-scheduler",
		"--config=/etc/kubernetes/berth/default-scheduler.yaml",
		"--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
		"--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
		"--kubeconfig=/etc/kubernetes/scheduler.conf",
		"--leader-elect=true",
		"--profiling=false",
		"--bind-address=0.0.0.0",
	}
	if diff := cmp.Diff(want, container.Command); diff != "" {
		t.Errorf("unexpected command (-want,+got):\n%s", diff)
	}
	mounts := map[string]string{}
	for _, mount := range container.VolumeMounts {
		for _, volume := range pod.Spec.Volumes {
			if volume.Name == mount.Name {
				mounts[mount.MountPath] = volume.HostPath.Path
			}
		}
	}
	wantMounts := map[string]string{
		"/etc/kubernetes/scheduler.conf":               "/etc/kubernetes/scheduler.conf",
		"/etc/kubernetes/berth/default-scheduler.yaml": "/etc/kubernetes/berth/default-scheduler.yaml",
		"/extra": "/srv/extra",
	}
	if diff := cmp.Diff(wantMounts, mounts); diff != "" {
		t.Errorf("unexpected mounts (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.EnvVar{{Name: "GOGC", Value: "50"}}, container.Env); diff != "" {
		t.Errorf("unexpected environment (-want,+got):\n%s", diff)
	}
	if container.Image != "localhost/berth-scheduler:v0.1.0" {
		t.Errorf("unexpected image %s", container.Image)
	}
}

// patchedStaticPod returns what kubeadm writes into /etc/kubernetes/manifests with
// this configuration of the cluster when its folder of patches is manifests/kubeadm.
// It fills in what every configuration has.
//
// kubeadm's packages are nobody's API. If a new version of Kubernetes does not
// compile here, this is the import to drop first: apply the patches with
// sigs.k8s.io/kustomize to a recorded manifest instead.
func patchedStaticPod(t *testing.T, cluster *kubeadmapi.ClusterConfiguration) *corev1.Pod {
	t.Helper()
	dir := t.TempDir()
	cluster.KubernetesVersion = framework.KubernetesVersion(t)
	cluster.CertificatesDir = filepath.Join(dir, "pki")
	err := controlplane.CreateStaticPodFiles(dir, install.Path("manifests/kubeadm"), cluster, &kubeadmapi.APIEndpoint{}, true, "kube-scheduler")
	if err != nil {
		t.Fatalf("kubeadm: %v", err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "kube-scheduler.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(content, pod); err != nil {
		t.Fatal(err)
	}
	if len(pod.Spec.Containers) != 1 {
		t.Fatalf("the patch did not meet kubeadm's container but made a second one:\n%s", content)
	}
	return pod
}

// mountHostPaths puts a profile of config/berth-scheduler where kube-scheduler.sh
// does, as far as the pod mounts that place, and fails if the pod's command names a
// file that is not mounted.
func mountHostPaths(t *testing.T, pod *corev1.Pod, root, profile string) {
	t.Helper()
	container := pod.Spec.Containers[0]
	var mounted []string
	for _, mount := range container.VolumeMounts {
		for _, volume := range pod.Spec.Volumes {
			if volume.Name == mount.Name && volume.HostPath != nil && volume.HostPath.Path == mount.MountPath {
				mounted = append(mounted, mount.MountPath)
			}
		}
	}
	for _, arg := range container.Command[1:] {
		if _, file, found := strings.Cut(arg, "=/"); found && !slices.Contains(mounted, "/"+file) {
			t.Errorf("%s: the pod mounts only %v", arg, mounted)
		}
	}

	source := install.Path("config/berth-scheduler", profile)
	content, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	// The credential that the file names must be mounted too.
	if credential := decodeProfile(t, source).ClientConnection.Kubeconfig; !slices.Contains(mounted, credential) {
		t.Errorf("the profile names %q, and the pod mounts only %v", credential, mounted)
	}
	target := filepath.Join(root, "/etc/kubernetes/berth/default-scheduler.yaml")
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
