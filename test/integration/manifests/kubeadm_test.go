// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/controlplane"
	"sigs.k8s.io/yaml"

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

	pod := patchedStaticPod(t)
	container := pod.Spec.Containers[0]
	root := t.TempDir()
	mountHostPaths(t, pod, root)
	berth := install.StartBinary(t, install.Options{
		Binary:     container.Command[0],
		Args:       container.Command[1:],
		Root:       root,
		Kubeconfig: credential,
	})
	berth.WaitReady(t)

	create(t, c, ordinary("before"))
	c.WaitForPodScheduled(t, "default", "before")
	if now := waitForHolder(t, c, metav1.NamespaceSystem, "kube-scheduler", ""); now != before {
		t.Fatalf("the lease went from %s to %s while the stock scheduler was running", before, now)
	}

	stock.Stop(t)
	create(t, c, ordinary("after"))
	c.WaitForPodScheduled(t, "default", "after")
	waitForHolder(t, c, metav1.NamespaceSystem, "kube-scheduler", before)
	if strings.Contains(berth.Output(), "forbidden") {
		t.Errorf("the scheduler was forbidden something:\n%s", berth.Output())
	}
}

// patchedStaticPod returns what kubeadm writes into /etc/kubernetes/manifests
// when it is given the folder manifests/kubeadm with --patches.
//
// kubeadm's packages are nobody's API. If a new version of Kubernetes does not
// compile here, this is the import to drop first: apply the patch with
// sigs.k8s.io/kustomize to a recorded manifest instead.
func patchedStaticPod(t *testing.T) *corev1.Pod {
	t.Helper()
	dir := t.TempDir()
	cluster := &kubeadmapi.ClusterConfiguration{KubernetesVersion: framework.KubernetesVersion(t), CertificatesDir: filepath.Join(dir, "pki")}
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

// mountHostPaths puts the profile where the README says, as far as the pod mounts
// that place, and fails if the pod's command names a file that is not mounted.
func mountHostPaths(t *testing.T, pod *corev1.Pod, root string) {
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

	const profile = "/etc/kubernetes/berth/default-scheduler.yaml"
	content, err := os.ReadFile(install.Path("config/berth-scheduler/default-scheduler.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// The credential that the file names must be mounted too.
	if credential := decodeProfile(t, install.Path("config/berth-scheduler/default-scheduler.yaml")).ClientConnection.Kubeconfig; !slices.Contains(mounted, credential) {
		t.Errorf("the profile names %q, and the pod mounts only %v", credential, mounted)
	}
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(profile)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, profile), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, c *framework.Cluster, pod *corev1.Pod) {
	t.Helper()
	// Right after the start, the account that pods get may not be there yet.
	framework.WaitForCondition(t, framework.WaitTimeout, "pod "+pod.Name+" to be let in", func() (bool, error) {
		_, err := c.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		return err == nil, err
	})
}
