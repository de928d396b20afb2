// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"context"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
)

// faultyPods is how many pods come while the network is faulty.
const faultyPods = 200

// faulty lets pods come while the network does what hooks say, and fails if that never
// happened.
func faulty(s *scene, hooks *faultproxy.Hooks, happened *atomic.Int64) time.Time {
	s.hooks.Store(hooks)
	s.letPodsCome(faultyPods)
	s.hooks.Store(nil)
	if happened.Load() == 0 {
		s.t.Error("the fault never happened: this shows nothing")
	}
	return time.Now()
}

// slowAPI has each request take 300 ms more.
func slowAPI(s *scene) time.Time {
	const latency = 300 * time.Millisecond
	var slow atomic.Int64
	wait := func() {
		slow.Add(1)
		<-time.After(latency) // the fault, not a wait for something
	}
	return faulty(s, &faultproxy.Hooks{
		Binding: func(b *faultproxy.Binding) *faultproxy.Answer { wait(); return faultproxy.PassOn(b) },
		Drop:    func(*http.Request) bool { wait(); return false },
	}, &slow)
}

// lostAnswers loses one answer in twenty, after the API server has done what was asked.
func lostAnswers(s *scene) time.Time {
	var lost atomic.Int64
	lose := func() bool {
		if rand.IntN(20) > 0 {
			return false
		}
		lost.Add(1)
		return true
	}
	return faulty(s, &faultproxy.Hooks{
		Binding: func(b *faultproxy.Binding) *faultproxy.Answer {
			answer := faultproxy.PassOn(b)
			if lose() {
				return nil
			}
			return answer
		},
		Lose: func(*http.Request) bool { return lose() },
	}, &lost)
}

// tooManyRequests answers four requests in five with 429, as an API server does whose
// queues are full.
func tooManyRequests(s *scene) time.Time {
	var refused atomic.Int64
	refuse := func() *faultproxy.Answer {
		if rand.IntN(5) == 0 {
			return nil
		}
		refused.Add(1)
		return &faultproxy.Answer{Code: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}}
	}
	return faulty(s, &faultproxy.Hooks{
		Binding: func(b *faultproxy.Binding) *faultproxy.Answer {
			if answer := refuse(); answer != nil {
				return answer
			}
			return faultproxy.PassOn(b)
		},
		Answer: func(*http.Request) *faultproxy.Answer { return refuse() },
	}, &refused)
}

// deafLeader has the leader hear nothing more from the API server, which does what it asks.
func deafLeader(s *scene) time.Time {
	return partition(s, func(r *relay) *direction { return &r.toClient })
}

// muteLeader has nothing more of what the leader sends arrive while it hears what happens. What
// it has sent arrives when it has ended, and the next one leads.
func muteLeader(s *scene) time.Time {
	return partition(s, func(r *relay) *direction { return &r.toServer })
}

// partition cuts one direction between the leader and the API server until the next one leads.
func partition(s *scene, cut func(*relay) *direction) time.Time {
	former := s.Leader()
	direction := cut(s.relayOf(former))
	began := time.Now()
	direction.shut()
	s.recovery = s.recovered("in-partition", began)
	s.await("the former leader to end", func() (bool, error) { return !former.Running(), nil })
	direction.open()
	if direction.held.Load() == 0 {
		s.t.Error("nothing was held back: this shows nothing")
	}
	s.letPodsCome(alive)
	return time.Now()
}

// tokenFile returns a copy of a kubeconfig that reads its token from a file, as pods do.
func (s *scene) tokenFile(kubeconfig string) string {
	s.t.Helper()
	s.issueToken("first")
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Token, user.TokenFile = "", s.token
	}
	content, err := clientcmd.Write(*config)
	if err != nil {
		s.t.Fatal(err)
	}
	return write(s.t, filepath.Join(s.t.TempDir(), "kubeconfig"), content)
}

// issueToken puts a token into the schedulers' file that is good as long as a Secret is there.
func (s *scene) issueToken(secret string) {
	s.t.Helper()
	core := s.c.Client.CoreV1()
	bound, err := core.Secrets(names.Namespace).Create(s.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret}}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.revokeToken(secret) })
	answer, err := core.ServiceAccounts(names.Namespace).CreateToken(s.t.Context(), names.Scheduler, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: secret, UID: bound.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	write(s.t, s.token, []byte(answer.Status.Token))
}

// revokeToken makes a token worthless.
func (s *scene) revokeToken(secret string) {
	s.t.Helper()
	err := s.c.Client.CoreV1().Secrets(names.Namespace).Delete(context.WithoutCancel(s.t.Context()), secret, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.t.Error(err)
	}
}

// tokenReplaced revokes the schedulers' token, and puts another one into its file as soon as
// the leader was refused.
func tokenReplaced(s *scene) time.Time {
	leader := s.Leader()
	s.revokeToken("first")
	s.await("the leader to be refused", func() (bool, error) { return says(leader, "Unauthorized"), nil })
	s.issueToken("second")
	return time.Now()
}
