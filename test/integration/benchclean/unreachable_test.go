// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package benchclean

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestUnreachable shows what is said about an API server that is not there, or does
// not answer.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	nobody := fmt.Sprintf("127.0.0.1:%d", framework.FreePort(t))
	// Takes connections, and never says a word.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for _, tt := range []struct{ name, kubeconfig, want string }{
		{"nobody listens", kubeconfig(t, nobody), "cannot reach the API server at https://" + nobody},
		{"no answer", kubeconfig(t, silent.Addr().String()), "the API server at https://" + silent.Addr().String() + " has not answered within 8s"},
	} {
		for _, args := range [][]string{{"bench", "-f", workload, "--schedulers", "default-scheduler"}, {"bench", "clean"}} {
			t.Run(tt.name+", "+strings.Join(args, " "), func(t *testing.T) {
				t.Parallel()
				process := framework.StartProcess(t, kubectlBerth, append(args, "--kubeconfig", tt.kubeconfig)...)
				if code := process.Wait(t, framework.WaitTimeout); code != 1 || !strings.Contains(process.Output(), tt.want) {
					t.Errorf("ended with %d, want 1 and %q", code, tt.want)
				}
			})
		}
	}
}

// kubeconfig writes one for a server.
func kubeconfig(t *testing.T, address string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: "https://" + address, InsecureSkipTLSVerify: true}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: "none"}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
