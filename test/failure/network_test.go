// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

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
		Binding: func(b *faultproxy.Binding) *faultproxy.Answer { wait(); return passOn(b) },
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
			answer := passOn(b)
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
			return passOn(b)
		},
		Answer: func(*http.Request) *faultproxy.Answer { return refuse() },
	}, &refused)
}
