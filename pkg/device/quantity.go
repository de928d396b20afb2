// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const bytesPerMiB = 1 << 20

// suffixes are those that an amount of memory may have.
var suffixes = [...]string{"Ki", "Mi", "Gi", "Ti", "Pi", "k", "M", "G", "T", "P"}

// parseQuantity parses a quantity from an annotation, which no API server has
// checked. It refuses exponents: with a long one, the parser of Kubernetes
// computes for hours.
func parseQuantity(value string) (resource.Quantity, error) {
	digits := value
	for _, suffix := range suffixes {
		if cut, ok := strings.CutSuffix(value, suffix); ok {
			digits = cut
			break
		}
	}
	const maxDigits = 24
	if digits == "" || len(digits) > maxDigits || strings.Trim(digits, "0123456789.") != "" {
		return resource.Quantity{}, errors.New("not a number with a suffix")
	}
	return resource.ParseQuantity(value)
}

// wholeNumber returns the quantity as an int64, and false if it has a fraction
// or is out of range.
func wholeNumber(q *resource.Quantity) (int64, bool) {
	n := q.Value() // rounds up, and saturates
	return n, q.CmpInt64(n) == 0
}

// leastMemory is the least device memory, in bytes, that can be meant: whoever writes
// less has forgotten the unit.
const leastMemory = bytesPerMiB

// memoryMiB converts bytes to MiB, rounded up so that nobody is given less than
// was asked for. The text is empty, or says what is wrong with the quantity: it
// must be positive and at least as many bytes.
func memoryMiB(q *resource.Quantity, least int64) (mebibytes int64, problem string) {
	switch {
	case q.Sign() <= 0:
		return 0, "is not positive: ask for some memory, like 10Gi, or remove it"
	case q.CmpInt64(least) < 0:
		n, unit := q.Value(), "Gi"
		if n >= 1024 {
			unit = "Mi" // as in the labels of nodes
		}
		return 0, fmt.Sprintf("is %d bytes: the unit is bytes, write %d%s if that is meant", n, n, unit)
	case q.CmpInt64(MaxMemoryMiB*bytesPerMiB) > 0:
		return 0, "is more than any device has: the unit is bytes, write it like 10Gi"
	}
	return (q.Value() + bytesPerMiB - 1) / bytesPerMiB, ""
}

// parseCount parses a non-negative number as this package writes it: digits
// alone, without leading zeros.
func parseCount(s string, limit int64) (int64, bool) {
	if s == "" || len(s) > 19 || (s[0] == '0' && s != "0") {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n <= limit
}
