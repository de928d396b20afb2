// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/pkg/localcluster/process"
	"github.com/berth-scheduler/berth/pkg/oracle"
)

const (
	// clusterTimeout is how long the control plane may take to start, and
	// schedulerTimeout a scheduler until it is ready and holds its lease. A small, busy
	// machine needs ten times the usual.
	clusterTimeout   = 3 * time.Minute
	schedulerTimeout = 90 * time.Second
	// settleTimeout is how long the pods may take to appear, to be placed or refused, and
	// to run, and their events to be written. What is not so by then is up to the verdict.
	settleTimeout = time.Minute
	// stopTimeout is how long a process may take to stop before it is killed.
	// berth-local stops four components in order meanwhile.
	stopTimeout = 30 * time.Second
)

// errViolations is returned when the verdict is not a good one. The verdict has been
// printed then.
var errViolations = errors.New("a pod is where its scheduler's rules do not allow it")

// schedulers are the three, in the order of schedulerNames: the binary, which is also the
// name of its lease, the lease's namespace, flags of "berth-local kubeconfig", and its own.
var schedulers = []struct {
	binary, leaseNamespace string
	credential, args       []string
}{
	{"kube-scheduler", metav1.NamespaceSystem, []string{"--user=system:kube-scheduler"}, nil},
	{"berth-scheduler", names.Namespace, []string{"--service-account=" + names.Namespace + "/" + names.Scheduler}, []string{"--config=hack/demo/berth-scheduler.yaml", "--feature-gates=" + gangGates}},
	// The verdict holds every scheduler to the nodes' resources.
	{"random-scheduler", "", []string{"--service-account=" + names.Namespace + "/" + names.RandomScheduler}, []string{"--fit=resources"}},
}

// demo is one run.
type demo struct {
	*options
	out     io.Writer
	started time.Time
	// processes are the children in the order in which they were started.
	processes []*process.Process
	// client is the administrator's, set once the control plane is up.
	client kubernetes.Interface
	// fail ends the run with a reason.
	fail context.CancelCauseFunc
}

func newDemo(opts *options, out io.Writer) *demo {
	return &demo{options: opts, out: out, started: time.Now()}
}

// step prints what is about to happen, with the seconds since the start.
func (d *demo) step(format string, args ...any) {
	fmt.Fprintf(d.out, "[%5.1fs] %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, args...))
}

// path returns a path in the demo's folder.
func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// run shows everything and returns errViolations if the verdict is bad. When it returns,
// nothing runs any more and nothing is left on disk, unless all was started and
// options.keep is set.
func (d *demo) run(ctx context.Context) (err error) {
	for _, name := range []string{"berth-local", "kubectl", "kube-scheduler", "berth-scheduler", "random-scheduler"} {
		if !isFile(filepath.Join(bin, name)) {
			return fmt.Errorf("%s is missing: run \"make build\" first", filepath.Join(bin, name))
		}
	}
	if d.keep {
		err = claimKept(d.dir)
	} else {
		d.dir, err = os.MkdirTemp("", "berth-demo-")
	}
	if err != nil {
		return fmt.Errorf("making the demo's folder: %w", err)
	}
	// A child that dies ends whatever is being waited for, and is the reason.
	ctx, d.fail = context.WithCancelCause(ctx)
	defer d.fail(nil)
	good, err := d.show(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	if err == nil && d.keep {
		d.printUsage()
	} else {
		err = errors.Join(err, d.cleanUp())
	}
	if err == nil && !good {
		return errViolations
	}
	return err
}

// show starts everything, applies the workloads, prints what came of them and reports
// whether all is as expected.
func (d *demo) show(ctx context.Context) (good bool, err error) {
	for _, step := range []func(context.Context) error{d.startCluster, d.createNamespaces, d.startSchedulers, d.applyWorkloads} {
		if err := step(ctx); err != nil {
			return false, err
		}
	}
	d.step("waiting until every pod is placed and running, or refused")
	cluster, report, err := d.settled(ctx)
	if err != nil {
		return false, err
	}
	services, err := d.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	d.step("verdict")
	printNodes(d.out, cluster)
	printDevices(d.out, report.Devices)
	printCalls(d.out, cluster, services.Items)
	printVerdict(d.out, cluster, report)
	return len(report.Violations) == 0, nil
}

// start starts a binary of bin/ as a process of the demo. With keep it outlives the demo;
// without, it does not survive it, however that ends.
func (d *demo) start(name string, args ...string) (*process.Process, error) {
	options := process.Options{LogFile: d.path(name + ".log"), Detached: d.keep, OnFailure: func(err error) { d.fail(err) }}
	p, err := process.Start(options, filepath.Join(bin, name), args...)
	if err != nil {
		return nil, err
	}
	d.processes = append(d.processes, p)
	if d.keep {
		// At once: should the demo itself be killed, --stop still finds it.
		return p, writeRecords(d.dir, d.processes)
	}
	return p, nil
}

// cleanUp stops all processes, last started first, and removes the folder.
func (d *demo) cleanUp() error {
	var errs []error
	for _, p := range slices.Backward(d.processes) {
		errs = append(errs, p.Stop(stopTimeout))
	}
	errs = append(errs, os.RemoveAll(d.dir))
	if len(d.processes) > 0 {
		d.step("everything stopped and removed")
	}
	return errors.Join(errs...)
}

// kubectl runs bin/kubectl as the administrator.
func (d *demo) kubectl(ctx context.Context, stdin string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "kubectl"), append([]string{"--kubeconfig", d.path("kubeconfig")}, args...)...)
	// Its cache goes with the cluster: another one may get the same port.
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+d.path("kubectl-cache"))
	cmd.Stdin = strings.NewReader(stdin)
	_, err := process.Output(cmd)
	return err
}

// startCluster starts the control plane with the demo's nodes.
func (d *demo) startCluster(ctx context.Context) error {
	d.step("starting etcd, kube-apiserver, kube-controller-manager and kwok, with nodes from hack/demo/nodes.yaml")
	p, err := d.start("berth-local", "up", "--kubeconfig", d.path("kubeconfig"), "--data-dir", d.path("cluster"), "--nodes", "hack/demo/nodes.yaml",
		"--feature-gates", gangGates, "--runtime-config", gangAPI)
	if err != nil {
		return err
	}
	var ready string
	err = p.WaitFor(ctx, clusterTimeout, "is not ready", func(context.Context) (bool, error) {
		log, err := os.ReadFile(p.LogFile)
		line, complete := strings.CutSuffix(string(log), "\n")
		ready = line[max(0, strings.LastIndex(line, "berth-local ready:")):]
		return complete && strings.HasPrefix(ready, "berth-local ready:"), err
	})
	if err != nil {
		return err
	}
	d.step("%s", ready)
	config, err := clientcmd.BuildConfigFromFlags("", d.path("kubeconfig"))
	if err != nil {
		return fmt.Errorf("reading the kubeconfig that berth-local wrote: %w", err)
	}
	config.QPS = -1 // the demo polls a server of its own
	config.Timeout = time.Minute
	d.client, err = kubernetes.NewForConfig(config)
	return err
}

// createNamespaces creates the namespaces of the demo's pods and, if it is asked for, the
// pods that break rules: before the admission policies that would refuse them are
// installed.
func (d *demo) createNamespaces(ctx context.Context) error {
	if err := d.kubectl(ctx, "", "apply", "-f", "hack/demo/namespaces.yaml"); err != nil {
		return err
	}
	for _, namespace := range namespaces {
		// A pod needs it.
		if err := d.kubectl(ctx, "", "wait", "-n", namespace, "--for=create", "serviceaccount/default", "--timeout=60s"); err != nil {
			return err
		}
	}
	if d.breakRules {
		d.step("DEMO_BREAK: injecting a pod on a node without label %q, and two that hold 600m of one device (hack/demo/break.yaml)", ruleLabel)
		if err := d.kubectl(ctx, "", "apply", "-f", "hack/demo/break.yaml"); err != nil {
			return err
		}
	}
	d.step("installing the schedulers' ServiceAccounts, roles and admission policies from manifests/")
	return errors.Join(
		d.kubectl(ctx, "", "apply", "-k", "hack/demo/install/berth-scheduler"),
		d.kubectl(ctx, "", "apply", "-k", "hack/demo/install/random-scheduler"))
}

// startSchedulers starts the three, each with its own credential, and waits until each is
// ready and leads.
func (d *demo) startSchedulers(ctx context.Context) error {
	d.step("starting kube-scheduler, berth-scheduler (hack/demo/berth-scheduler.yaml) and random-scheduler, each with a credential of its own")
	// Certificates are not checked: each scheduler makes its own, and what it says is no
	// secret.
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	conditions := make([]wait.ConditionWithContextFunc, len(schedulers))
	for i, s := range schedulers {
		kubeconfig := d.path(s.binary + ".kubeconfig")
		content, err := process.Output(exec.CommandContext(ctx, filepath.Join(bin, "berth-local"), append([]string{"kubeconfig", "--data-dir", d.path("cluster")}, s.credential...)...))
		if err == nil {
			err = os.WriteFile(kubeconfig, []byte(content), 0o600)
		}
		if err != nil {
			return fmt.Errorf("making the kubeconfig of %s: %w", s.binary, err)
		}
		port, err := localcluster.FreePort()
		if err != nil {
			return err
		}
		address := "127.0.0.1:" + strconv.Itoa(port)
		args := append([]string{"--kubeconfig=" + kubeconfig}, s.args...)
		url := "https://" + address
		if s.leaseNamespace == "" {
			args = append(args, "--bind-address="+address)
			url = "http://" + address
		} else {
			args = append(args, "--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port),
				"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
		}
		if _, err := d.start(s.binary, args...); err != nil {
			return err
		}
		conditions[i] = process.Ready(client, url+"/readyz")
	}
	for i, s := range schedulers {
		p := d.processes[len(d.processes)-len(schedulers)+i]
		err := p.WaitFor(ctx, schedulerTimeout, "is not ready", func(ctx context.Context) (bool, error) {
			if ready, err := conditions[i](ctx); !ready || err != nil || s.leaseNamespace == "" {
				return ready, err
			}
			// The cluster is new: whoever holds the lease is of this run.
			lease, err := d.client.CoordinationV1().Leases(s.leaseNamespace).Get(ctx, s.binary, metav1.GetOptions{})
			return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "", nil // else it is not there yet
		})
		if err != nil {
			return err
		}
		if s.leaseNamespace == "" {
			d.step("%s is ready", s.binary)
			continue
		}
		d.step("%s is ready and holds lease %s/%[1]s", s.binary, s.leaseNamespace)
	}
	return nil
}

// settled waits until the oracle finds nothing wrong but what was injected, and returns
// what the API server says then, or at the end of the timeout.
func (d *demo) settled(ctx context.Context) (cluster *oracle.Cluster, report *oracle.Report, err error) {
	err = wait.PollUntilContextTimeout(ctx, 2*process.PollInterval, settleTimeout, true, func(context.Context) (bool, error) {
		// With the demo's context, not with the wait's: an observation that is under way
		// when the time is over is finished, and is the last one.
		seen, err := d.observe(ctx)
		if err != nil {
			return false, err
		}
		cluster, report = seen, oracle.Check(seen, expectation)
		return !slices.ContainsFunc(report.Violations, func(v oracle.Violation) bool { return !strings.Contains(v.String(), "injected") }) &&
			!slices.ContainsFunc(cluster.Pods, func(pod corev1.Pod) bool {
				return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodRunning
			}), nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil && report != nil {
		err = nil // the verdict says what it means
	}
	return cluster, report, err
}

// observe lists what the verdict needs.
func (d *demo) observe(ctx context.Context) (*oracle.Cluster, error) {
	all := metav1.ListOptions{}
	nodes, errNodes := d.client.CoreV1().Nodes().List(ctx, all)
	pods, errPods := d.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, all)
	deployments, errDeployments := d.client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, all)
	events, errEvents := d.client.EventsV1().Events(metav1.NamespaceAll).List(ctx, all)
	if err := errors.Join(errNodes, errPods, errDeployments, errEvents); err != nil {
		return nil, err
	}
	return &oracle.Cluster{Nodes: nodes.Items, Pods: pods.Items, Deployments: deployments.Items, Events: events.Items}, nil
}

// printUsage says how to go on with what was left running.
func (d *demo) printUsage() {
	stop := filepath.Join(bin, "demo") + " --stop"
	if kept, err := filepath.Abs(keptDir); err != nil || d.dir != kept {
		stop += " --dir " + d.dir
	}
	fmt.Fprintf(d.out, `
Left running, in %s (kubeconfigs, logs). From the checkout:

  export KUBECONFIG=%s
  PATH=$PWD/%s:$PATH
  kubectl get nodes -L topology.kubernetes.io/zone,selectable,device
  kubectl get pods -A -o wide
  kubectl get pods -n gpu -o custom-columns='POD:.metadata.name,NODE:.spec.nodeName,DEVICES:.metadata.annotations.%s'
  kubectl describe pod -n policy gpu-in-zone-c    # pending: no node fits its scheduler's rule
  kubectl label node c2 %s=true           # now one does

Stop everything and remove the folder:

  %s
`, d.dir, d.path("kubeconfig"), bin, strings.ReplaceAll(names.GPUAssignedAnnotation, ".", `\.`), ruleLabel, stop)
}
