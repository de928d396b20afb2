// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"strconv"
	"strings"
)

// Count writes a number of things whose plural takes an s: "1 pod", "2 pods".
func Count(number int, thing string) string {
	if number == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(number) + " " + thing + "s"
}

// List writes things in a sentence, the first most of them, and how many more there are:
// "a, b, and 3 more".
func List(things []string, most int) string {
	if len(things) <= most {
		return strings.Join(things, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(things[:most], ", "), len(things)-most)
}
