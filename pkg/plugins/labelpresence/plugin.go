// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/config/validation"
)

// Name is the name of the plugin in the registry and in configurations.
const Name = "LabelPresence"

// LabelPresence is the plugin. See the package comment.
type LabelPresence struct {
	handle fwk.Handle
}

var _ fwk.Plugin = &LabelPresence{}

// Name returns the name of the plugin.
func (pl *LabelPresence) Name() string { return Name }

// New builds the plugin from args, which must be *config.LabelPresenceArgs.
func New(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	lpArgs, ok := args.(*config.LabelPresenceArgs)
	if !ok {
		return nil, fmt.Errorf("want args of type *config.LabelPresenceArgs, got %T", args)
	}
	if err := validation.ValidateLabelPresenceArgs(field.NewPath(Name+"Args"), lpArgs); err != nil {
		return nil, err
	}
	return &LabelPresence{handle: handle}, nil
}
