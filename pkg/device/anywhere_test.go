// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "testing"

// TestTakeAnywhere: what pods may hold of each device, if they are on it.
func TestTakeAnywhere(t *testing.T) {
	t.Parallel()
	pod := func(containers ...ContainerRequest) EqualRequests {
		return EqualRequests{Request: &Request{Kind: RequestShares, Containers: containers}, Pods: 1}
	}
	share := func(milli, memory int64) EqualRequests {
		return pod(ContainerRequest{Devices: 1, Milli: milli, MemoryMiB: memory})
	}
	whole := pod(ContainerRequest{Devices: 2, Milli: 1000})
	two := pod(ContainerRequest{Devices: 1, Milli: 200}, ContainerRequest{Devices: 1, Milli: 300})
	threeTimes := share(200, 0)
	threeTimes.Pods = 3
	for _, tt := range []struct {
		name     string
		used     int64 // of the first of two devices of 1,000 MiB
		requests []EqualRequests
		want     [2]int64 // free thousandths
	}{
		{name: "none", used: 300, want: [2]int64{700, 1000}},
		{name: "one", used: 300, requests: []EqualRequests{share(500, 0)}, want: [2]int64{200, 500}},
		{name: "one that has no room on the first", used: 600, requests: []EqualRequests{share(500, 0)}, want: [2]int64{400, 500}},
		{name: "whole devices", used: 1, requests: []EqualRequests{whole}, want: [2]int64{999, 0}},
		{name: "all containers on one device", requests: []EqualRequests{two}, want: [2]int64{500, 500}},
		{name: "one container has room, the other not", used: 750, requests: []EqualRequests{two}, want: [2]int64{0, 500}},
		// Each of them may be there, whatever the order: either leaves less than the other asks for.
		{name: "several", used: 400, requests: []EqualRequests{share(500, 0), share(300, 0)}, want: [2]int64{0, 200}},
		{name: "several, the other way round", used: 400, requests: []EqualRequests{share(300, 0), share(500, 0)}, want: [2]int64{0, 200}},
		{name: "three equal ones", used: 100, requests: []EqualRequests{threeTimes}, want: [2]int64{300, 400}},
		{name: "by memory", used: 300, requests: []EqualRequests{share(0, 500)}, want: [2]int64{200, 500}},
		// The label said more when it was placed.
		{name: "more memory than there is", used: 300, requests: []EqualRequests{share(500, 2000)}, want: [2]int64{0, 0}},
		{name: "overcommitted", used: 1100, requests: []EqualRequests{share(500, 0)}, want: [2]int64{-100, 500}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := NewUsage(2, 1000, 0)
			u.Take(0, Share{Milli: tt.used, MemoryMiB: tt.used})
			u.TakeAnywhere(tt.requests)
			if got := [2]int64{u.Free(0).Milli, u.Free(1).Milli}; got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
