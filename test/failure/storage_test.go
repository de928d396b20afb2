// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/pkg/localcluster/process"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// command is how a process of the control plane was started.
type command struct {
	dir  string
	args []string
}

// commandOf reads how a process of the control plane was started. It skips the test where the
// kernel does not say it.
func (s *scene) commandOf(component localcluster.Component) command {
	s.t.Helper()
	folder := fmt.Sprintf("/proc/%d", s.c.PID(component))
	line, err := os.ReadFile(filepath.Join(folder, "cmdline"))
	if err != nil {
		s.t.Skip(err)
	}
	dir, err := os.Readlink(filepath.Join(folder, "cwd"))
	if err != nil {
		s.t.Skip(err)
	}
	return command{dir: dir, args: strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")}
}

// start starts a process as another one was started, with further flags. It ends with the
// test.
func (s *scene) start(c command, flags ...string) *process.Process {
	s.t.Helper()
	log := filepath.Join(s.t.ArtifactDir(), "another.log")
	p, err := process.Start(process.Options{Dir: c.dir, LogFile: log}, c.args[0], append(c.args[1:len(c.args):len(c.args)], flags...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(p.Kill)
	return p
}

// staleReads puts two API servers behind a proxy that asks them by turns, as a load balancer
// does, one of which hears of everything late; and kills both schedulers, whose successors
// list from it.
func staleReads(s *scene) time.Time {
	const lag = 1500 * time.Millisecond
	etcd := startRelay(s.t, "unix", filepath.Join(s.c.DataDir, "etcd", "client.sock:0"))
	port := strconv.Itoa(framework.FreePort(s.t))
	server := &url.URL{Scheme: "https", Host: "127.0.0.1:" + port}
	s.log.others = []string{filepath.Join(s.t.TempDir(), "audit.log")}
	second := s.start(s.commandOf(localcluster.APIServer), "--secure-port="+port, "--etcd-servers=http://"+etcd.address, "--audit-log-path="+s.log.others[0])
	config := s.c.Cluster.Config()
	config.Host = server.String()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.await("the second API server to be ready", func() (bool, error) {
		if !second.Running() {
			s.t.Fatal(second.Failure("ended"))
		}
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(s.t.Context())
		return err == nil, err
	})
	etcd.toClient.delay.Store(int64(lag))
	var requests atomic.Int64
	s.hooks.Store(&faultproxy.Hooks{Server: func() *url.URL {
		if requests.Add(1)%2 == 0 {
			return nil
		}
		return server
	}})
	s.letPodsCome(alive)
	killed := time.Now()
	for _, r := range s.Running() {
		r.Kill()
	}
	s.recovery = s.recovered("after-kill", killed)
	s.letPodsCome(faultyPods)
	s.hooks.Store(nil)
	second.Kill()
	return time.Now()
}

// etcdOutOfSpace lets etcd reach its quota, after which it takes no write until an
// administrator has made room and disarmed the alarm.
func etcdOutOfSpace(s *scene) time.Time {
	const room = 8 << 20
	_, size := s.etcdStatus()
	ordinary := s.commandOf(localcluster.Etcd)
	if err := s.c.KillComponent(localcluster.Etcd); err != nil {
		s.t.Fatal(err)
	}
	small := s.start(ordinary, "--quota-backend-bytes="+strconv.FormatInt(size+room, 10))
	leader := s.Leader()
	s.await("etcd to be out of space", func() (bool, error) {
		err := s.growEtcd()
		return err != nil && strings.Contains(err.Error(), "database space exceeded"), err
	})
	s.await("the leader to lose its lease", func() (bool, error) { return !leader.Running(), nil })
	// As etcd's manual has it.
	s.shrinkEtcd()
	s.compact()
	s.etcdTool("etcdctl", "defrag")
	s.etcdTool("etcdctl", "alarm", "disarm")
	s.recovery = s.recovered("after-disarm", time.Now())
	small.Kill()
	if err := s.c.RestartComponent(s.t.Context(), localcluster.Etcd); err != nil {
		s.t.Fatal(err)
	}
	return time.Now()
}

// growEtcd writes an object into etcd that is as large as they may be, about.
func (s *scene) growEtcd() error {
	_, err := s.c.Client.CoreV1().ConfigMaps(gpuchurn.Namespace).Create(s.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "large-", Labels: map[string]string{"part": "large"}},
		Data:       map[string]string{"large": strings.Repeat("x", 1000<<10)},
	}, metav1.CreateOptions{})
	return err
}

// shrinkEtcd deletes what growEtcd has written.
func (s *scene) shrinkEtcd() {
	s.t.Helper()
	maps := s.c.Client.CoreV1().ConfigMaps(gpuchurn.Namespace)
	s.await("the large objects to be deleted", func() (bool, error) {
		err := maps.DeleteCollection(s.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "part=large"})
		return err == nil, err
	})
}

// diskFull has etcd on a disk of its own that runs full: etcd ends, and is started again when
// there is room, after the leader has lost its lease.
func diskFull(s *scene) time.Time {
	const slack = 64 << 20
	data := filepath.Join(s.c.DataDir, "etcd", "data")
	disk := filepath.Join(s.c.DataDir, "etcd", "disk")
	// withoutEtcd does something while etcd does not run.
	withoutEtcd := func(do func()) {
		if s.c.PID(localcluster.Etcd) != 0 {
			if err := s.c.KillComponent(localcluster.Etcd); err != nil {
				s.t.Fatal(err)
			}
		}
		do()
		if err := s.c.RestartComponent(s.t.Context(), localcluster.Etcd); err != nil {
			s.t.Fatal(err)
		}
	}
	sh := func(name string, args ...string) string {
		output, err := exec.CommandContext(s.t.Context(), name, args...).CombinedOutput()
		if err != nil {
			s.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, output)
		}
		return string(output)
	}
	if err := os.Mkdir(disk, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if output, err := exec.CommandContext(s.t.Context(), "mount", "-t", "tmpfs", "berth-full", disk).CombinedOutput(); err != nil {
		s.t.Skipf("no disk can be mounted here: %v: %s", err, output)
	}
	s.t.Cleanup(func() { _ = exec.Command("umount", "--lazy", disk).Run() }) // where the test has ended before
	withoutEtcd(func() {
		used, err := strconv.ParseInt(strings.Fields(sh("du", "--bytes", "--summarize", data))[0], 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		sh("mount", "-o", fmt.Sprintf("remount,size=%d", used+slack), disk)
		sh("cp", "-a", data, filepath.Join(disk, "data"))
		sh("rm", "-r", data)
		sh("ln", "-s", filepath.Join(disk, "data"), data)
	})
	leader, filler := s.Leader(), filepath.Join(disk, "filler")
	if err := fill(filler); !errors.Is(err, syscall.ENOSPC) {
		s.t.Fatalf("filling the disk: %v", err)
	}
	var failure error
	s.await("etcd to end", func() (bool, error) {
		select {
		case failure = <-s.c.Failed():
			return true, nil
		default:
			return false, s.growEtcd()
		}
	})
	if !strings.Contains(failure.Error(), "no space left on device") {
		s.t.Errorf("etcd has ended for another reason: %v", failure)
	}
	s.await("the leader to lose its lease", func() (bool, error) { return !leader.Running(), nil })
	var over time.Time
	withoutEtcd(func() {
		if err := os.Remove(filler); err != nil {
			s.t.Fatal(err)
		}
		over = time.Now()
	})
	s.recovery = s.recovered("after-full", over)
	s.shrinkEtcd()
	withoutEtcd(func() {
		sh("rm", data)
		sh("cp", "-a", filepath.Join(disk, "data"), data)
		sh("umount", disk)
		sh("rmdir", disk)
	})
	return time.Now()
}

// fill writes to a file until not even a byte more has room, and returns why.
func fill(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it cannot be written to
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
	}
	return err
}
