// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import "strconv"

// Count writes a number of things whose plural takes an s: "1 pod", "2 pods".
func Count(number int, thing string) string {
	if number == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(number) + " " + thing + "s"
}
