// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"fmt"
	"net"
	"strconv"
)

// serviceCIDR is where Services get their addresses from; serviceIP, its first
// one, is the "kubernetes" Service's.
const serviceCIDR = "10.96.0.0/16"

var serviceIP = net.IPv4(10, 96, 0, 1)

// The sockets' names are relative, and the two processes that use them run in the
// etcd folder: a path in a socket address has room for about a hundred bytes only.
// etcd wants a port in every address, and takes it as part of the name here.
const (
	clientSocket = "client.sock:0"
	peerSocket   = "peer.sock:0"
)

// auditPolicy records who did what to which object. Requests on pods and their
// subresources come with their body, which is where a Binding's content is seen.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [create, update, patch, delete]
  resources:
  - resources: [pods, pods/binding, pods/status]
- level: Metadata
`

// arguments returns the flags of one component.
func (c *Cluster) arguments(component Component) []string {
	f := c.folder
	switch component {
	case Etcd:
		client, peer := "unix://"+clientSocket, "unix://"+peerSocket
		args := []string{
			"--name=berth-local",
			"--data-dir=" + f.etcd("data"),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=berth-local=" + peer,
			// The default of 2 GiB is soon full under a benchmark.
			"--quota-backend-bytes=8589934592",
			"--log-level=warn",
		}
		if c.options.NoFsync || f.temporary {
			args = append(args, "--unsafe-no-fsync")
		}
		return args
	case APIServer:
		args := []string{
			"--etcd-servers=unix://" + clientSocket,
			"--bind-address=127.0.0.1",
			"--advertise-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(c.port),
			// Endpoints may not hold a loopback address, so the kubernetes Service has none.
			"--endpoint-reconciler-type=none",
			"--service-cluster-ip-range=" + serviceCIDR,
			"--tls-cert-file=" + f.pki(servingCert),
			"--tls-private-key-file=" + f.pki(servingKey),
			"--client-ca-file=" + f.pki(caCertFile),
			"--requestheader-client-ca-file=" + f.pki(frontProxyCertFile),
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + f.pki(saKeyFile),
			"--service-account-signing-key-file=" + f.pki(saKeyFile),
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true",
			// Without it, open watches keep the server from stopping for a minute.
			"--shutdown-watch-termination-grace-period=5s",
			"--profiling=false",
		}
		if c.options.AuditLog != "" {
			args = append(args, "--audit-policy-file="+f.auditPolicy(), "--audit-log-path="+c.options.AuditLog)
		}
		return append(args, c.options.APIServerArgs...)
	case ControllerManager:
		return append([]string{
			"--kubeconfig=" + f.kubeconfig(string(ControllerManager)),
			"--service-account-private-key-file=" + f.pki(saKeyFile),
			"--root-ca-file=" + f.pki(caCertFile),
			// Each controller acts as itself, with the rights that Kubernetes gives it.
			"--use-service-account-credentials=true",
			"--leader-elect=false",
			"--secure-port=0",
			"--profiling=false",
			// Three times the pace at which kwok renews node leases (nodeLeaseSeconds/4).
			"--node-monitor-grace-period=4m",
			// It tells kubelets how long to cache secrets, with a write to every node.
			"--controllers=*,-ttl-controller",
			"--kube-api-qps=1000",
			"--kube-api-burst=2000",
		}, c.options.ControllerManagerArgs...)
	case Kwok:
		return []string{
			"--kubeconfig=" + f.kubeconfig(string(Kwok)),
			"--ready-file=" + f.kwokReady(),
		}
	}
	panic(fmt.Sprintf("controlplane: no arguments for component %q", component))
}
