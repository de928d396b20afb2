// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package benchclean

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// snapshot is every object of a cluster, with its UID, its labels and its
// annotations. What an object says besides is not looked at, so that the renewals of
// Leases, the heartbeats in the status of nodes, and resource versions do not count,
// nor does the UID of the API server's own Lease, which one test kills.
//
// No object of any kind is left out that the API server can list, with one exception:
// events about the DaemonSet "everywhere" and about its pods. They tell what became of
// objects that are not the benchmark's, here that there was a pod on a fake node, and
// expire like any others. Events about the benchmark's own objects do count.
type snapshot map[object]string

type object struct {
	kind            schema.GroupVersionResource
	namespace, name string
}

// lookInterval lies between two looks at a cluster that is not yet as it should be. It
// spares the API server.
const lookInterval = 500 * time.Millisecond

// observe lists everything that there is now.
func observe(tb testing.TB, c *framework.Cluster) snapshot {
	tb.Helper()
	lists, err := c.Client.Discovery().ServerPreferredResources()
	if err != nil {
		tb.Fatalf("asking for the kinds of objects: %v", err)
	}
	lists = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists)
	var kinds []schema.GroupVersionResource
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			tb.Fatal(err)
		}
		for i := range list.APIResources {
			if name := list.APIResources[i].Name; name != "componentstatuses" { // not objects: the answers of health checks
				kinds = append(kinds, version.WithResource(name))
			}
		}
	}
	if len(kinds) < 40 {
		tb.Fatalf("the API server lists %d kinds only: the comparison would show nothing", len(kinds))
	}
	return observeKinds(tb, c, kinds)
}

// observeKinds lists all objects of some kinds.
func observeKinds(tb testing.TB, c *framework.Cluster, kinds []schema.GroupVersionResource) snapshot {
	tb.Helper()
	config := rest.CopyConfig(c.Config)
	config.WarningHandler = rest.NoWarnings{} // about kinds that are deprecated
	client, err := metadata.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	found := snapshot{}
	for _, kind := range kinds {
		items, err := client.Resource(kind).List(tb.Context(), metav1.ListOptions{})
		if err != nil {
			tb.Fatalf("listing %s: %v", kind.Resource, err)
		}
		for i := range items.Items {
			item := &items.Items[i]
			if kind.Resource == "events" && strings.HasPrefix(item.Name, "everywhere") {
				continue
			}
			uid := string(item.UID)
			if kind.Resource == "leases" && strings.HasPrefix(item.Name, "apiserver-") {
				uid = "" // an API server that starts creates it again
			}
			found[object{kind, item.Namespace, item.Name}] = uid + " " + pairs(item.Labels) + " " + pairs(item.Annotations)
		}
	}
	return found
}

// settled is what there is when nothing has changed for as long as the controllers take
// to look around.
func settled(tb testing.TB, c *framework.Cluster) snapshot {
	tb.Helper()
	last := observe(tb, c)
	same := 0
	err := wait.PollUntilContextTimeout(tb.Context(), lookInterval, framework.WaitTimeout, false, func(context.Context) (bool, error) {
		now := observe(tb, c)
		same++
		if !maps.Equal(last, now) {
			same = 0
		}
		last = now
		return same == 4, nil
	})
	if err != nil {
		tb.Fatalf("the cluster does not settle: %v", err)
	}
	return last
}

// compare fails the test if the cluster does not come to hold exactly what it held
// before: the garbage collector takes its time with the Leases of nodes. Until then it
// lists the kinds that differ, which costs the API server less than all.
func compare(tb testing.TB, c *framework.Cluster, before snapshot, when string) {
	tb.Helper()
	var kinds []schema.GroupVersionResource // all, if there are none
	wanted, now := before, snapshot{}
	err := wait.PollUntilContextTimeout(tb.Context(), lookInterval, framework.WaitTimeout, true, func(context.Context) (bool, error) {
		isPart := len(kinds) > 0
		if isPart {
			wanted, now = maps.Clone(before), observeKinds(tb, c, kinds)
			maps.DeleteFunc(wanted, func(o object, _ string) bool { return !slices.Contains(kinds, o.kind) })
		} else {
			wanted, now = before, observe(tb, c)
		}
		kinds = differing(wanted, now)
		return len(kinds) == 0 && !isPart, nil
	})
	if err != nil {
		tb.Fatalf("%s, the cluster does not hold what it held before (%v) (-before,+now):\n%s", when, err, cmp.Diff(wanted, now))
	}
}

// differing returns the kinds of which two snapshots have different objects.
func differing(a, b snapshot) []schema.GroupVersionResource {
	kinds := map[schema.GroupVersionResource]bool{}
	for _, pair := range [][2]snapshot{{a, b}, {b, a}} {
		for o, is := range pair[0] {
			if other, found := pair[1][o]; !found || other != is {
				kinds[o.kind] = true
			}
		}
	}
	return slices.Collect(maps.Keys(kinds))
}

func pairs(values map[string]string) string {
	var all []string
	for key, value := range values {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
