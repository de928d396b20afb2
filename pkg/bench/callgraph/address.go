// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callgraph

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// parseAddress returns the Service that an address names, as a pod in namespace
// resolves it. A bare word is no address: it could mean anything.
func parseAddress(value, namespace string) (types.NamespacedName, bool) {
	host, ok := hostOf(value)
	if !ok {
		return types.NamespacedName{}, false
	}
	name, rest, qualified := strings.Cut(host, ".")
	if qualified {
		var more bool
		if namespace, rest, more = strings.Cut(rest, "."); more && rest != "svc" && !strings.HasPrefix(rest, "svc.") {
			return types.NamespacedName{}, false // a domain that is not the cluster's
		}
	}
	// localhost is never asked of the DNS server.
	if name == "localhost" || len(validation.IsDNS1035Label(name)) > 0 || qualified && len(validation.IsDNS1123Label(namespace)) > 0 {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, true
}

// hostOf returns the host of host:port or of a URL.
func hostOf(value string) (string, bool) {
	if strings.Contains(value, "://") {
		parsed, err := url.Parse(value)
		if err != nil {
			return "", false
		}
		return parsed.Hostname(), true
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		return "", false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return host, err == nil && number > 0
}
