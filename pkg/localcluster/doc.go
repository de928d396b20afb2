// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package localcluster starts and stops a Kubernetes control plane on this
// machine: etcd, kube-apiserver, kube-controller-manager and kwok, which plays
// the kubelet of every Node. There is no scheduler in it; that is what one runs
// against it.
//
// It is not envtest's ControlPlane of controller-runtime v0.25.2, which starts etcd and
// the API server alone, with etcd open to every user of the machine on a TCP port, makes a
// new certificate authority at every start, and can neither kill a component with SIGKILL
// nor report that one has died nor end with its parent. Nor is it kwokctl's binary runtime
// of kwok v0.8.0: its components are daemons that outlive a parent that is killed, it
// knows them by the file names of their binaries (here one binary runs all four) and only
// ever stops them with SIGKILL, and its etcd has an open TCP port too.
//
// Each component is a process of its own, so that a test can kill one alone. The
// package links none of them. It starts Options.Executable again and again under
// the arguments "component NAME -- FLAGS", which berth-local understands.
//
//	            Start                          Stop
//	(nothing) ---------> etcd                 kwok
//	                     kube-apiserver       kube-controller-manager
//	                     kube-controller-m.   kube-apiserver
//	                     kwok                 etcd ---------> (nothing)
//
// What it assumes and promises:
//
//   - One control plane a folder: a file lock on the data directory refuses the
//     second. A kept folder restarts with the same certificate authority, the same
//     service account signing key and the same objects, so that kubeconfigs and
//     tokens handed out earlier stay valid as long as the port is free again.
//   - Everything listens on 127.0.0.1 alone; etcd on a socket in the folder, which
//     only its owner can enter.
//   - RBAC is on. Apart from the administrator, a credential has only the rights
//     that it was granted.
//   - On Linux no child outlives the process that started it, not even when that
//     one is killed with SIGKILL. Elsewhere an orderly Stop is needed.
//   - A component that dies without being asked to is not restarted: Failed
//     delivers its name and the last lines of its log, and the caller decides.
//   - kwok manages every Node, whoever created it. A Node or Pod that carries the
//     annotation CustomStatusAnnotation keeps the status that it was given.
package localcluster
