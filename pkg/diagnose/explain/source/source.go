// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/cluster/schedulers"
	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// Options say what is asked about, and where it is read.
type Options struct {
	// Namespace is that of the pod, and of objects in manifests that name none.
	Namespace string
	// Pod is the name of a pod; or Manifests are files of pods and workloads that do not
	// exist yet. - is Stdin.
	Pod       string
	Manifests []string
	Stdin     io.Reader
	// Snapshots are files of the objects of a cluster; Client is that of a cluster, if
	// there are none.
	Snapshots []string
	Client    kubernetes.Interface
	Host      string
	// Config is a KubeSchedulerConfiguration file. Without it that of the running
	// scheduler is looked for.
	Config string
	// Now is the time by which leases have run out.
	Now time.Time
	// Parallelism is how many goroutines filter and score.
	Parallelism int
}

// ErrNoPod is that there is no such pod.
var ErrNoPod = errors.New("not found")

// Read reads everything, and returns one Input for each pod or workload that is asked
// about.
func Read(ctx context.Context, o *Options) ([]*explain.Input, error) {
	found := &found{namespace: o.Namespace, in: explain.Input{Now: o.Now, Parallelism: o.Parallelism}}
	var err error
	if len(o.Snapshots) > 0 {
		err = found.readSnapshots(o)
	} else {
		err = found.readServer(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	units, err := found.units(ctx, o)
	if err != nil {
		return nil, err
	}
	found.in.Servers = found.schedulers.Servers
	if found.in.Objects != nil {
		for _, group := range found.in.Objects.PodGroups() {
			found.in.PodGroups = append(found.in.PodGroups, explain.PodGroup{Namespace: group.Namespace, Name: group.Name, MinMember: group.MinCount, Native: true})
		}
	}
	var inputs []*explain.Input
	for _, unit := range units {
		in := found.in
		in.Pods, in.Of, in.Refused = unit.pods, unit.of, unit.refused
		if err := found.readConfig(o, unit.pods[0].Spec.SchedulerName, &in); err != nil {
			return nil, err
		}
		if len(in.Pods) == 1 && in.Objects != nil {
			in.Pods = explain.Members(&in, in.Pods[0])
		}
		inputs = append(inputs, &in)
	}
	return inputs, nil
}

// found is what was read.
type found struct {
	in explain.Input
	// schedulers are those of the cluster.
	schedulers schedulers.Schedulers
	// namespace is that of manifests that name none.
	namespace string
	// ended is the pod that is asked about, if it has terminated.
	ended *corev1.Pod
}

// unit is a pod, or the pods of a workload.
type unit struct {
	of   string
	pods []*corev1.Pod
	// refused says for what an API server would refuse them.
	refused []string
}

// units returns what is asked about.
func (f *found) units(ctx context.Context, o *Options) ([]unit, error) {
	if len(o.Manifests) > 0 {
		return f.readManifests(o)
	}
	if f.in.Objects != nil {
		for _, pod := range f.in.Objects.Pods() {
			if pod.Namespace == o.Namespace && pod.Name == o.Pod {
				if pod.Spec.SchedulerName == "" { // as an API server has it
					pod.Spec.SchedulerName = corev1.DefaultSchedulerName
				}
				return []unit{{pods: []*corev1.Pod{pod}}}, nil
			}
		}
	}
	if f.ended != nil {
		return []unit{{pods: []*corev1.Pod{f.ended}}}, nil
	}
	if o.Client == nil {
		return nil, fmt.Errorf("pod %s/%s: %w in %s", o.Namespace, o.Pod, ErrNoPod, strings.Join(o.Snapshots, ", "))
	}
	pod, err := o.Client.CoreV1().Pods(o.Namespace).Get(ctx, o.Pod, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: getting pod %s/%s: %w", o.Host, o.Namespace, o.Pod, err)
	}
	return []unit{{pods: []*corev1.Pod{pod}}}, nil
}

// readFiles reads files and folders into a reader.
func readFiles(reader *cluster.Reader, files []string, stdin io.Reader, flag string) error {
	for _, file := range files {
		if err := reader.ReadFile(file, stdin); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return nil
}

// readSnapshots reads the objects of a cluster from files.
func (f *found) readSnapshots(o *Options) error {
	reader := cluster.NewReader()
	reader.Namespace = o.Namespace
	reader.Keep = f.keep
	if err := readFiles(reader, o.Snapshots, o.Stdin, "--snapshot"); err != nil {
		return err
	}
	f.in.Objects, _ = reader.Cluster()
	f.ended = reader.Ended(o.Namespace, o.Pod)
	f.in.ServersSeen = len(f.schedulers.Servers) > 0
	if newest := f.schedulers.Newest; !newest.IsZero() && newest.Before(f.in.Now) {
		f.in.Now = newest // the cluster is that of then
	}
	if len(f.in.Objects.Nodes()) == 0 {
		return fmt.Errorf("--snapshot: no nodes in %s: add the output of \"kubectl get nodes -o yaml\"", strings.Join(o.Snapshots, ", "))
	}
	return nil
}

// apply changes the objects that were listed as those that are written would.
func (f *found) apply(written *cluster.Cluster) {
	if f.in.Objects == nil {
		return
	}
	for _, object := range written.Objects() {
		if err := f.in.Objects.Apply(object); err != nil {
			f.notSeen("-f: what it changes of an object that is there already: %v", err)
		}
	}
}

// readManifests reads what does not exist yet: its pods are asked about, and everything
// else is taken for applied.
func (f *found) readManifests(o *Options) ([]unit, error) {
	reader := cluster.NewReader()
	reader.Namespace = o.Namespace
	reader.Keep = f.keep
	if err := readFiles(reader, o.Manifests, o.Stdin, "-f"); err != nil {
		return nil, err
	}
	written, _ := reader.Cluster()
	listed := f.in.Objects != nil && f.in.Objects.Has("priorityclasses")
	f.apply(written)
	var units []unit
	index := map[string]int{}
	admit := f.priorities(written, listed)
	for _, pod := range written.Pods() {
		if pod.Spec.NodeName != "" {
			continue
		}
		if pod.Spec.SchedulerName == "" {
			pod.Spec.SchedulerName = corev1.DefaultSchedulerName
		}
		key, of := "Pod "+pod.Name, fmt.Sprintf("Pod %s/%s", pod.Namespace, pod.Name)
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			key, of = owner.Kind+" "+owner.Name, fmt.Sprintf("%s %s/%s", owner.Kind, pod.Namespace, owner.Name)
		}
		if gang := podgroup.Of(pod).Name; gang != "" {
			key = "gang " + gang
			if metav1.GetControllerOfNoCopy(pod) == nil {
				of = fmt.Sprintf("Gang %s/%s", pod.Namespace, gang)
			}
		}
		key = pod.Namespace + " " + key
		if _, ok := index[key]; !ok {
			index[key] = len(units)
			units = append(units, unit{of: of})
		}
		u := &units[index[key]]
		u.pods = append(u.pods, pod)
		if why := admit(pod); why != "" && !slices.Contains(u.refused, why) {
			u.refused = append(u.refused, why)
		}
	}
	if len(units) == 0 {
		return nil, fmt.Errorf("-f: no pods without a node in %s: want a Pod, Deployment, StatefulSet, ReplicaSet or Job", strings.Join(o.Manifests, ", "))
	}
	return units, nil
}

// priorities returns what gives a pod of a manifest the priority of its class, and says why
// an API server would refuse the pod. Where the classes of the cluster were not listed,
// that one is missing is no more than not seen.
func (f *found) priorities(written *cluster.Cluster, listed bool) func(*corev1.Pod) (refused string) {
	from := written
	if f.in.Objects != nil {
		from = f.in.Objects // with what is written
	}
	classes := from.PriorityClasses()
	classes.AdmitPodGroups(from)
	told := map[string]bool{}
	return func(pod *corev1.Pod) string {
		err := classes.Admit(pod)
		switch {
		case err == nil:
			return ""
		case listed || pod.Spec.Priority != nil:
			return err.Error()
		case !told[pod.Spec.PriorityClassName]:
			told[pod.Spec.PriorityClassName] = true
			f.notSeen("PriorityClass %q, so the pods that name it are taken to have priority 0 (-f FILE adds it)", pod.Spec.PriorityClassName)
		}
		return ""
	}
}

// readConfig finds the configuration of the scheduler that serves the name.
func (f *found) readConfig(o *Options, schedulerName string, in *explain.Input) error {
	if o.Config != "" {
		return readConfigFile(o.Config, schedulerName, in)
	}
	profile, _, err := f.schedulers.Find(schedulerName)
	if profile == nil {
		return err
	}
	in.Config, in.Profile = profile.Config, profile.Source
	return nil
}

// readConfigFile reads the configuration of --config. A pod of the cluster's own
// scheduler has that one's profile all the same.
func readConfigFile(file, schedulerName string, in *explain.Input) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	in.Profile = file
	if in.Config, err = engine.LoadConfiguration(file, content); err != nil || schedulerName != corev1.DefaultSchedulerName || schedulers.Serves(in.Config, schedulerName) {
		return err
	}
	stock, err := schedulers.Stock()
	in.Config, in.Profile = stock.Config, stock.Source
	return err
}
