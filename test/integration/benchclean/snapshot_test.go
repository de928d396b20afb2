// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package benchclean

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
type snapshot map[string]string

// observe lists everything that there is now.
func observe(tb testing.TB, c *framework.Cluster) snapshot {
	tb.Helper()
	config := rest.CopyConfig(c.Config)
	config.WarningHandler = rest.NoWarnings{} // about kinds that are deprecated
	client, err := metadata.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	lists, err := c.Client.Discovery().ServerPreferredResources()
	if err != nil {
		tb.Fatalf("asking for the kinds of objects: %v", err)
	}
	lists = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists)
	found := snapshot{}
	kinds := 0
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			tb.Fatal(err)
		}
		for i := range list.APIResources {
			name := list.APIResources[i].Name
			if name == "componentstatuses" { // not objects: the answers of health checks
				continue
			}
			kinds++
			items, err := client.Resource(version.WithResource(name)).List(tb.Context(), metav1.ListOptions{})
			if err != nil {
				tb.Fatalf("listing %s: %v", name, err)
			}
			for j := range items.Items {
				item := &items.Items[j]
				if name == "events" && strings.HasPrefix(item.Name, "everywhere") {
					continue
				}
				key := strings.Join([]string{name + "." + version.Group, item.Namespace, item.Name}, "/")
				uid := string(item.UID)
				if name == "leases" && strings.HasPrefix(item.Name, "apiserver-") {
					uid = "" // an API server that starts makes it anew
				}
				found[key] = uid + " " + pairs(item.Labels) + " " + pairs(item.Annotations)
			}
		}
	}
	if kinds < 40 {
		tb.Fatalf("the API server told of %d kinds only: the comparison would show nothing", kinds)
	}
	return found
}

// settled is what there is when nothing changes any more: twice the same, for as
// long as the controllers take to look around.
func settled(tb testing.TB, c *framework.Cluster) snapshot {
	tb.Helper()
	last := observe(tb, c)
	same := 0
	framework.WaitForCondition(tb, framework.WaitTimeout, "the cluster to settle", func() (bool, error) {
		now := observe(tb, c)
		if cmp.Equal(last, now) {
			same++
		} else {
			same = 0
		}
		last = now
		return same == 10, nil
	})
	return last
}

// compare fails the test if the cluster does not come to hold exactly what it held
// before: the garbage collector takes its time with the Leases of nodes.
func compare(tb testing.TB, c *framework.Cluster, before snapshot, when string) {
	tb.Helper()
	framework.WaitForCondition(tb, framework.WaitTimeout, when+", the cluster to hold what it held before", func() (bool, error) {
		diff := cmp.Diff(before, observe(tb, c))
		return diff == "", fmt.Errorf("(-before,+now):\n%s", diff)
	})
}

func pairs(values map[string]string) string {
	var all []string
	for key, value := range values {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
