// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// missingRightIsNamedAtStart takes every single right out of the manifests'
// roles in turn. That random-scheduler works with all of them, every other test
// here shows; so they are neither too few nor too many.
func missingRightIsNamedAtStart(t *testing.T) {
	c := start(t, nil)
	clusterRoles, roles := c.Client.RbacV1().ClusterRoles(), c.Client.RbacV1().Roles(names.Namespace)
	clusterRole, err := clusterRoles.Get(t.Context(), names.RandomScheduler, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role, err := roles.Get(t.Context(), names.RandomScheduler, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	original := map[string][]rbacv1.PolicyRule{"ClusterRole": clusterRole.DeepCopy().Rules, "Role": role.DeepCopy().Rules}
	update := func(t *testing.T, kind string, rules []rbacv1.PolicyRule) {
		t.Helper()
		var err error
		if kind == "Role" {
			role.Rules, role.ResourceVersion = rules, ""
			_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
		} else {
			clusterRole.Rules, clusterRole.ResourceVersion = rules, ""
			_, err = clusterRoles.Update(t.Context(), clusterRole, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	self := framework.ClientFor(t, c.ServiceAccountKubeconfig(t, names.Namespace, names.RandomScheduler))

	for _, kind := range []string{"ClusterRole", "Role"} {
		for i, rule := range original[kind] {
			for _, verb := range rule.Verbs {
				if len(rule.APIGroups) != 1 || len(rule.Resources) != 1 {
					t.Fatalf("%s, rule %d: this test takes one group and resource a rule", kind, i)
				}
				t.Run(verb+"-"+strings.ReplaceAll(rule.Resources[0], "/", "-"), func(t *testing.T) {
					rules := slices.Clone(original[kind])
					rules[i].Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return v == verb })
					if len(rules[i].Verbs) == 0 {
						rules = slices.Delete(rules, i, i+1)
					}
					update(t, kind, rules)
					defer update(t, kind, original[kind])

					resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
					attributes := &authorizationv1.ResourceAttributes{Verb: verb, Group: rule.APIGroups[0], Resource: resource, Subresource: subresource}
					if kind == "Role" {
						attributes.Namespace = names.Namespace
					}
					if len(rule.ResourceNames) > 0 {
						attributes.Name = rule.ResourceNames[0]
					}
					framework.WaitForCondition(t, framework.WaitTimeout, "the authorizer to see the change", func() (bool, error) {
						review, err := self.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
							&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}, metav1.CreateOptions{})
						return err == nil && !review.Status.Allowed, err
					})
					p := launch(t, c, "--leader-elect=true", fmt.Sprintf("--secure-port=%d", framework.FreePort(t)))
					if code := p.Wait(t, framework.WaitTimeout); code != 1 {
						t.Errorf("exit code %d, want 1", code)
					}
					want := verb + " " + resource
					if rule.APIGroups[0] != "" {
						want += "." + rule.APIGroups[0]
					}
					if subresource != "" {
						want += "/" + subresource
					}
					for _, text := range []string{want, "lacks 1 right", "system:serviceaccount:berth-system:random-scheduler"} {
						if !strings.Contains(p.Output(), text) {
							t.Errorf("output does not contain %q:\n%s", text, p.Output())
						}
					}
				})
			}
		}
	}
}

func mistakesEndTheProcessWithAWayOut(t *testing.T) {
	c := start(t, nil)
	busy := fmt.Sprintf("--secure-port=%d", framework.FreePort(t))
	run(t, c, busy)
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{"the port is taken", []string{busy}, []string{busy, "address already in use", "choose another"}},
		{
			"the lease's namespace does not exist",
			[]string{"--kubeconfig=" + c.Kubeconfig, "--leader-elect=true", "--leader-elect-resource-namespace=nowhere"},
			[]string{"leaderElection.resourceNamespace", `namespace "nowhere" does not exist`, "create it"},
		},
		{
			"nobody listens where the kubeconfig points",
			[]string{"--kubeconfig=" + deadKubeconfig(t)},
			[]string{"connection refused"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := launch(t, c, tt.args...)
			if code := p.Wait(t, framework.WaitTimeout); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			for _, want := range tt.want {
				if !strings.Contains(p.Output(), want) {
					t.Errorf("output does not contain %q:\n%s", want, p.Output())
				}
			}
		})
	}
}

// deploymentRunsAsItSays starts two replicas with the arguments of the
// installed Deployment and asks them what the kubelet would.
func deploymentRunsAsItSays(t *testing.T) {
	c := start(t, localcluster.FakeNodes(2))
	deployment, err := c.Client.AppsV1().Deployments(names.Namespace).Get(t.Context(), names.RandomScheduler, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	if pod.ServiceAccountName != names.RandomScheduler || container.Command != nil {
		t.Fatalf("the Deployment runs %q as %q, which this test does not follow", container.Command, pod.ServiceAccountName)
	}
	// The controller-manager has made its pods, so the namespace's pod security
	// standard accepts them.
	framework.WaitForCondition(t, framework.WaitTimeout, "the Deployment's pods", func() (bool, error) {
		return len(list(t, c, names.Namespace)) == 2, nil
	})

	args := append([]string{"--kubeconfig=" + c.ServiceAccountKubeconfig(t, names.Namespace, pod.ServiceAccountName)}, container.Args...)
	var urls []string
	for range *deployment.Spec.Replicas {
		port := framework.FreePort(t)
		// In a pod every replica has an address of its own.
		framework.StartProcess(t, framework.RandomScheduler, append(args, fmt.Sprintf("--secure-port=%d", port))...)
		urls = append(urls, fmt.Sprintf("https://127.0.0.1:%d", port))
	}
	for _, url := range urls {
		for _, probe := range []string{container.ReadinessProbe.HTTPGet.Path, container.LivenessProbe.HTTPGet.Path} {
			framework.WaitForCondition(t, framework.WaitTimeout, url+probe+" to answer 200", func() (bool, error) {
				_, err := get(t, withToken(t, ""), url+probe)
				return err == nil, err
			})
		}
	}

	createMany(t, c, 3, "pod")
	create(t, c, newPod("waits", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "node"} }))
	waitAllBound(t, c, "default", 3)
	c.WaitForPodUnschedulable(t, "default", "waits")
	var pages []string
	trusting := rest.CopyConfig(c.Config)
	trusting.Insecure, trusting.CAData, trusting.CAFile = true, nil, ""
	administrator, err := rest.HTTPClientFor(trusting)
	if err != nil {
		t.Fatal(err)
	}
	nobody := withToken(t, "")
	// Known to the API server, and without the right.
	unprivileged := withToken(t, tokenOf(t, c, "default", "default"))
	for _, url := range urls {
		for name, who := range map[string]*http.Client{"401 or 403 for nobody": nobody, "403 for somebody": unprivileged} {
			if page, err := get(t, who, url+"/metrics"); err == nil || !strings.Contains(err.Error(), "40") {
				t.Errorf("%s: /metrics answers %q, %v", name, page, err)
			}
		}
		framework.WaitForCondition(t, framework.WaitTimeout, "/metrics to know the administrator", func() (bool, error) {
			page, err := get(t, administrator, url+"/metrics")
			if err == nil {
				pages = append(pages, page)
			} else {
				administrator.CloseIdleConnections()
			}
			return err == nil, err
		})
	}
	for _, want := range []string{
		`berth_random_scheduler_schedule_attempts_total{result="scheduled"} 3`,
		`berth_random_scheduler_schedule_attempts_total{result="error"} 0`,
		`berth_random_scheduler_bind_duration_seconds_count{outcome="scheduled"} 3`,
		`berth_random_scheduler_pending_pods{queue="active"} 0`,
		`berth_random_scheduler_pending_pods{queue="unschedulable"} 1`,
	} {
		if !strings.Contains(pages[0], want+"\n") && !strings.Contains(pages[1], want+"\n") {
			t.Errorf("neither replica has the metric %s", want)
		}
	}
}

// deadKubeconfig returns a kubeconfig for an API server that does not exist.
func deadKubeconfig(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["dead"] = &clientcmdapi.Cluster{Server: fmt.Sprintf("http://127.0.0.1:%d", framework.FreePort(t))}
	config.Contexts["dead"] = &clientcmdapi.Context{Cluster: "dead"}
	config.CurrentContext = "dead"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// removalLeavesTheNamespaceAndTheRunningPods follows the README's way out.
func removalLeavesTheNamespaceAndTheRunningPods(t *testing.T) {
	c := start(t, localcluster.FakeNodes(1))
	p := run(t, c)
	create(t, c, newPod("runs"))
	uid := c.WaitForPodRunning(t, "default", "runs").UID
	p.Stop(t)
	create(t, c, newPod("waits"))
	c.Kubectl(t, "delete", "-k", "manifests/random-scheduler", "-l", "app.kubernetes.io/name=random-scheduler")
	if got := c.Kubectl(t, "get", "pods", "-A", "-o", "name", "--field-selector", "spec.schedulerName=random-scheduler,spec.nodeName="); got != "pod/waits\n" {
		t.Errorf("the pods that nobody will place are listed as %q, want pod/waits alone", got)
	}
	if pod := c.WaitForPodRunning(t, "default", "runs"); pod.UID != uid {
		t.Errorf("the running pod was replaced")
	}
	if got := c.Kubectl(t, "get", "namespace", names.Namespace, "-o", "jsonpath={.status.phase}"); got != "Active" {
		t.Errorf("namespace %s is %q after the removal, want Active", names.Namespace, got)
	}
	if got := c.Kubectl(t, "get", "deployments,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings", "-A", "-o", "name",
		"-l", "app.kubernetes.io/name=random-scheduler"); got != "" {
		t.Errorf("the removal left\n%s", got)
	}
}

// withToken returns a client that trusts any certificate, as the kubelet's probes
// do, and shows a token unless it is empty.
func withToken(t *testing.T, token string) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(&rest.Config{BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// tokenOf returns a token of a ServiceAccount.
func tokenOf(t *testing.T, c *framework.Cluster, namespace, name string) string {
	t.Helper()
	request, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

func get(t *testing.T, client *http.Client, url string) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}
