// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// TestRequestKey: keys, and their texts in a signature, are equal where nothing but the names
// of containers differs.
func TestRequestKey(t *testing.T) {
	t.Parallel()
	models := func(list string) Models {
		parsed, err := ParseModels(list)
		must(t, err)
		return parsed
	}
	share := func(name string, milli int64) ContainerRequest {
		return ContainerRequest{Container: name, Devices: 1, Milli: milli}
	}
	requests := []struct {
		Request

		like int // the index of the request that it is equal to
	}{
		0:  {Request: Request{}},
		1:  {Request{Kind: RequestPartitions}, 1},
		2:  {Request{Kind: RequestShares, Containers: []ContainerRequest{share("a", 500)}}, 2},
		3:  {Request{Kind: RequestShares, Containers: []ContainerRequest{share("b", 500)}}, 2},
		4:  {Request{Kind: RequestShares, Containers: []ContainerRequest{share("a", 501)}}, 4},
		5:  {Request{Kind: RequestShares, Containers: []ContainerRequest{share("a", 500), share("b", 500)}}, 5},
		6:  {Request{Kind: RequestShares, Containers: []ContainerRequest{{Devices: 1, MemoryMiB: 500}}}, 6},
		7:  {Request{Kind: RequestShares, Containers: []ContainerRequest{{Devices: 1, Milli: 500, Kind: Init}}}, 7},
		8:  {Request{Kind: RequestShares, Containers: []ContainerRequest{share("a", 500)}, MinMemoryMiB: 1}, 8},
		9:  {Request{Kind: RequestShares, Containers: []ContainerRequest{share("a", 500)}, Models: models("a100,h100*")}, 9},
		10: {Request{Kind: RequestShares, Containers: []ContainerRequest{share("a", 500)}, Models: models("A100, H100**")}, 9},
		11: {Request{Kind: RequestShares, Containers: []ContainerRequest{share("a", 500)}, Models: models("h100*,a100")}, 11},
		12: {Request{Kind: RequestDevicePlugin, Containers: []ContainerRequest{{Devices: 1 << 20, Milli: 1000}}}, 12},
		13: {Request{Kind: RequestShares, Containers: []ContainerRequest{{Devices: 16, Milli: 1000, MemoryMiB: MaxMemoryMiB}}}, 13},
	}
	for i := range requests {
		for j := range requests {
			a, b := requests[i].Key(), requests[j].Key()
			want := requests[i].like == requests[j].like
			textA, errA := json.Marshal(a)
			textB, errB := json.Marshal(b)
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			if (a == b) != want || (string(textA) == string(textB)) != want {
				t.Errorf("%d and %d: the keys are equal: %t, and the texts %s and %s; want %t", i, j, a == b, textA, textB, want)
			}
		}
	}
}

// TestModelListsAreForgotten: of lists that strangers write, none outlives the pods that ask for it.
func TestModelListsAreForgotten(t *testing.T) {
	for i := range 10000 {
		if _, err := ParseModels(fmt.Sprintf("stranger-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		runtime.GC()
		modelLists.mu.Lock()
		left := len(modelLists.byText)
		modelLists.mu.Unlock()
		if left < 5000 {
			return
		}
		runtime.Gosched()
		<-time.After(time.Millisecond)
	}
	t.Error("lists that no pod asks for are still remembered")
}
