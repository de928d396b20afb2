// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// Start runs one replica of the Deployment berth-scheduler that is installed in
// c, and stops it at the end of the test. It does not wait for anything: see
// [framework.Scheduler.WaitReady].
func Start(tb testing.TB, c *framework.Cluster) *framework.Scheduler {
	tb.Helper()
	return StartDeployment(tb, c, names.Namespace, names.Scheduler)
}

// StartDeployment is [Start] for a Deployment of another namespace and name.
func StartDeployment(tb testing.TB, c *framework.Cluster, namespace, name string) *framework.Scheduler {
	tb.Helper()
	return StartRelease(tb, c, namespace, name, "")
}

// StartRelease is [StartDeployment] with the binary of another release, a path; empty
// stands for the one that the image is named after.
func StartRelease(tb testing.TB, c *framework.Cluster, namespace, name, binary string) *framework.Scheduler {
	tb.Helper()
	deployment, err := c.Client.AppsV1().Deployments(namespace).Get(tb.Context(), name, metav1.GetOptions{})
	if err != nil {
		tb.Fatalf("reading the installed Deployment: %v", err)
	}
	pod := deployment.Spec.Template.Spec
	if len(pod.Containers) != 1 {
		tb.Fatalf("the Deployment has %d containers, want 1", len(pod.Containers))
	}
	container := pod.Containers[0]
	if len(container.Command) > 0 {
		tb.Fatalf("the Deployment replaces the image's entry point with %q, which cannot be followed here", container.Command)
	}

	root := tb.TempDir()
	mountConfigMaps(tb, c, namespace, pod, container, root)
	return StartBinary(tb, c, Options{
		Binary:     cmp.Or(binary, binaryOf(container.Image)),
		Args:       container.Args,
		Root:       root,
		Kubeconfig: c.ServiceAccountKubeconfig(tb, namespace, pod.ServiceAccountName),
	})
}

// Options say how [StartBinary] runs a scheduler.
type Options struct {
	// Binary is the name of a binary that `make build` makes.
	Binary string
	// Args are its arguments as a manifest has them, with the container's paths.
	Args []string
	// Root is the folder that stands for the container's root.
	Root string
	// Kubeconfig is the file with the credential to use.
	Kubeconfig string
}

// StartBinary runs a scheduler as its manifest says; see the package comment for
// the differences.
func StartBinary(tb testing.TB, c *framework.Cluster, o Options) *framework.Scheduler {
	tb.Helper()
	var args []string
	for _, arg := range o.Args {
		flag, value, _ := strings.Cut(arg, "=")
		switch flag {
		case "--config":
			file := filepath.Join(o.Root, value)
			setKubeconfig(tb, file, o.Kubeconfig)
			arg = flag + "=" + file
		case "--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig", "--bind-address", "--secure-port":
			continue // replaced, in the file or below
		}
		args = append(args, arg)
	}
	return c.RunScheduler(tb, o.Binary, o.Kubeconfig, args...)
}

// mountConfigMaps writes the ConfigMaps that the container mounts below root.
func mountConfigMaps(tb testing.TB, c *framework.Cluster, namespace string, pod corev1.PodSpec, container corev1.Container, root string) {
	tb.Helper()
	for _, mount := range container.VolumeMounts {
		for _, volume := range pod.Volumes {
			if volume.Name != mount.Name || volume.ConfigMap == nil {
				continue
			}
			cm, err := c.Client.CoreV1().ConfigMaps(namespace).Get(tb.Context(), volume.ConfigMap.Name, metav1.GetOptions{})
			if err != nil {
				tb.Fatalf("reading the ConfigMap of volume %q: %v", volume.Name, err)
			}
			dir := filepath.Join(root, mount.MountPath)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				tb.Fatal(err)
			}
			for name, content := range cm.Data {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					tb.Fatal(err)
				}
			}
		}
	}
}

// setKubeconfig writes kubeconfig into the clientConnection of a
// KubeSchedulerConfiguration, where a kubeconfig of its own has precedence over
// --kubeconfig.
func setKubeconfig(tb testing.TB, file, kubeconfig string) {
	tb.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		tb.Fatalf("the manifest names a configuration that is not mounted: %v", err)
	}
	var config map[string]any
	if err := yaml.UnmarshalStrict(content, &config); err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	connection, _ := config["clientConnection"].(map[string]any)
	if connection == nil {
		connection = map[string]any{}
	}
	connection["kubeconfig"] = kubeconfig
	config["clientConnection"] = connection
	if content, err = yaml.Marshal(config); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// binaryOf returns "x" for the image "registry/x:tag".
func binaryOf(image string) string {
	name, _, _ := strings.Cut(path.Base(image), ":")
	return name
}
