// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"fmt"
	"strconv"
	"strings"
)

// ShareOfNodes adds under a name which part of the nodes, 0 to 1, are every n-th one:
// the topics' templates call the nodes node-0, node-1 and so on.
func ShareOfNodes(nodes []string, n int, name string, into map[string]float64) error {
	hits := 0
	for _, node := range nodes {
		index, err := strconv.Atoi(strings.TrimPrefix(node, "node-"))
		if err != nil {
			return fmt.Errorf("node %q: %w", node, err)
		}
		if index%n == 0 {
			hits++
		}
	}
	into[name] = float64(hits) / float64(max(len(nodes), 1))
	return nil
}
