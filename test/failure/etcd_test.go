// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// etcdTool runs etcdctl or etcdutl in etcd's folder and returns its standard output.
func (s *scene) etcdTool(name string, args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), framework.Tool(s.t, name), args...)
	cmd.Dir = filepath.Join(s.c.DataDir, "etcd")
	if name == "etcdctl" {
		// Relative, as etcd has it: a path in a socket's address has little room.
		cmd.Env = append(os.Environ(), "ETCDCTL_ENDPOINTS=unix://client.sock:0")
	}
	var problem strings.Builder
	cmd.Stderr = &problem
	output, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, problem.String())
	}
	return string(output)
}

// etcdStatus returns etcd's revision, and how large its file is.
func (s *scene) etcdStatus() (revision, size int64) {
	s.t.Helper()
	var statuses []struct {
		Status struct {
			DBSize int64 `json:"dbSize"`
			Header struct {
				Revision int64 `json:"revision"`
			} `json:"header"`
		} `json:"Status"`
	}
	output := s.etcdTool("etcdctl", "endpoint", "status", "--write-out=json")
	if err := json.Unmarshal([]byte(output), &statuses); err != nil || len(statuses) != 1 {
		s.t.Fatalf("reading %q: %v", output, err)
	}
	return statuses[0].Status.Header.Revision, statuses[0].Status.DBSize
}

// compact has etcd forget all versions but the present ones.
func (s *scene) compact() {
	s.t.Helper()
	revision, _ := s.etcdStatus()
	s.etcdTool("etcdctl", "compact", strconv.FormatInt(revision, 10))
}

// watchExpired breaks the schedulers' watches, compacts away in etcd what they have missed,
// and restarts the API server, which forgets it too: they must list anew.
func watchExpired(s *scene) time.Time {
	var lists atomic.Int64
	isPods := func(r *http.Request) bool { return r.URL.Path == "/api/v1/pods" || r.URL.Path == "/api/v1/nodes" }
	s.hooks.Store(&faultproxy.Hooks{Drop: isPods})
	away(s, localcluster.APIServer, 0)
	// Nobody sees these come and go.
	s.createPods("unseen", "50", unseen)
	s.deletePods("unseen")
	s.compact()
	s.hooks.Store(&faultproxy.Hooks{Drop: func(r *http.Request) bool {
		q := r.URL.Query()
		if isPods(r) && (q.Get("watch") == "" || q.Get("sendInitialEvents") == "true") {
			lists.Add(1)
		}
		return false
	}})
	over := away(s, localcluster.APIServer, 0)
	s.await("the schedulers to list anew", func() (bool, error) { return lists.Load() > 0, nil })
	return over
}

// restored brings etcd back from a snapshot, as after the loss of all its members. What
// was written since is gone: pods that had come, and Bindings. The schedulers must be right
// by what there is.
func restored(s *scene) time.Time {
	if compat.Release != "1.37" {
		s.t.Skip("etcdutl is that of Kubernetes 1.37's etcd")
	}
	s.letPodsCome(2 * alive)
	snapshot := filepath.Join(s.t.TempDir(), "snapshot.db")
	s.etcdTool("etcdctl", "snapshot", "save", snapshot)
	s.letPodsCome(2 * alive)
	s.stopChurn()
	s.requireHistory(nil)
	for _, component := range []localcluster.Component{localcluster.APIServer, localcluster.Etcd} {
		if err := s.c.KillComponent(component); err != nil {
			s.t.Fatal(err)
		}
	}
	data := filepath.Join(s.c.DataDir, "etcd", "data")
	if err := os.RemoveAll(data); err != nil {
		s.t.Fatal(err)
	}
	s.etcdTool("etcdutl", "snapshot", "restore", snapshot, "--data-dir", data, "--name=berth-local",
		"--initial-cluster=berth-local=unix://peer.sock:0", "--initial-advertise-peer-urls=unix://peer.sock:0",
		// Revisions go on, and whoever watches is told that what it knows is gone.
		"--bump-revision=1000000000", "--mark-compacted")
	for _, component := range []localcluster.Component{localcluster.Etcd, localcluster.APIServer} {
		if err := s.c.RestartComponent(s.t.Context(), component); err != nil {
			s.t.Fatal(err)
		}
	}
	over := time.Now()
	// What was seen before is no longer so.
	s.earlier.versions, s.earlier.bindings = s.versions, s.bindings
	s.startLog()
	s.watch = gpuchurn.StartWatch(s.t, s.c)
	s.endDeletions()
	s.listKept()
	return over
}

// endDeletions deletes the pods that are being deleted: their kubelets do.
func (s *scene) endDeletions() {
	s.t.Helper()
	pods := s.c.Client.CoreV1().Pods(gpuchurn.Namespace)
	list, err := pods.List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			continue
		}
		if err := pods.Delete(s.t.Context(), list.Items[i].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			s.t.Fatal(err)
		}
	}
}
