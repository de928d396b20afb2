// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheme

import (
	"k8s.io/apimachinery/pkg/runtime"
	pluginsconfig "sigs.k8s.io/scheduler-plugins/apis/config"
	pluginsconfigv1 "sigs.k8s.io/scheduler-plugins/apis/config/v1"
)

// addOutOfTree registers the arguments of the plugins that Berth compiles in from
// sigs.k8s.io/scheduler-plugins. That project's own registration reaches the
// scheme that decodes files and not the one that defaults and converts, so it
// works only as long as the latter was not asked for before.
func addOutOfTree(scheme *runtime.Scheme) error {
	if err := pluginsconfig.AddToScheme(scheme); err != nil {
		return err
	}
	return pluginsconfigv1.AddToScheme(scheme)
}
