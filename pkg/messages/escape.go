// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package messages

import "strings"

// Escape makes a reason safe for the scheduler, which uses reasons as a format string. A
// percent sign comes from a quoted value only, where Go could have written it this way too.
func Escape(reason string) string { return strings.ReplaceAll(reason, "%", `\x25`) }
