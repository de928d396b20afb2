// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package settings reads what a berth-scheduler runs with: its flags over its file over the
// defaults, merged as kube-scheduler merges them; and what that needs of a cluster: rights,
// and resources that the API server serves.
//
// The start of a scheduler, --validate, kubectl berth check and explain all use it, so that
// a flag has the effect on a check that it has on the process.
package settings

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	_ "k8s.io/kubernetes/cmd/kube-scheduler/app" // all feature gates that a kube-scheduler has
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/version"
)

// SoleFlag is the flag that says that no other scheduler of the cluster serves
// default-scheduler.
const SoleFlag = "sole-default-scheduler"

// Flags are those of berth-scheduler. A nil *Flags is a command line without any.
type Flags struct {
	// Options are kube-scheduler's flags. Their Flags are all of berth-scheduler's.
	Options *options.Options
	// Validate is whether the process checks the file and exits.
	Validate bool
	// SoleDefaultScheduler is [SoleFlag].
	SoleDefaultScheduler bool
	// Version is --version.
	Version *version.Flag
}

// New returns the flags of this process, with their defaults: its feature gates are those
// that the flags set.
func New() *Flags { return withFlags(options.NewOptions()) }

func withFlags(opts *options.Options) *Flags {
	global := opts.Flags.FlagSet("global")
	f := &Flags{Options: opts, Version: version.AddFlag(global)}
	own := opts.Flags.FlagSet("berth")
	own.BoolVar(&f.Validate, "validate", false, "Check the file given with --config, and the flags, as at startup, and exit. It needs no cluster. Permissions, custom resources and the lease are not checked; kubectl berth check checks them.")
	own.BoolVar(&f.SoleDefaultScheduler, SoleFlag, false, "Assert that no other scheduler of this cluster serves default-scheduler. A profile of that name may then take the lease of the cluster's own scheduler even if that lease was never held: a scheduler without leader election leaves no lease.")
	globalflag.AddGlobalFlags(global, names.Scheduler, logs.SkipLoggingConfigurationFlags())
	return f
}

// Parse reads the arguments of another process as it would itself. The error is why that
// process does not start. The feature gates of this process stay as they are.
func Parse(args []string) (*Flags, error) {
	globals := basecompatibility.NewComponentGlobalsRegistry()
	if err := globals.Register(basecompatibility.DefaultKubeComponent, compatibility.DefaultBuildEffectiveVersion(), utilfeature.DefaultMutableFeatureGate.DeepCopy()); err != nil {
		return nil, err
	}
	f := withFlags(options.NewOptionsWithComponentGlobalsRegistry(globals))
	all := pflag.NewFlagSet(names.Scheduler, pflag.ContinueOnError)
	all.SetNormalizeFunc(cliflag.WordSepNormalizeFunc) // as component-base's cli has it
	all.Usage = func() {}
	for _, set := range f.Options.Flags.FlagSets {
		all.AddFlagSet(set)
	}
	if err := all.Parse(args); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return nil, err
	}
	if all.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q: only flags are accepted", all.Arg(0))
	}
	if err := globals.Set(); err != nil {
		return nil, err
	}
	return f, f.Check()
}

// Check returns what keeps a process with these flags from starting, whatever its file says.
func (f *Flags) Check() error {
	o := f.Options
	errs := o.ComponentGlobalsRegistry.Validate()
	errs = append(errs, o.SecureServing.Validate()...)
	errs = append(errs, o.Authentication.Validate()...)
	errs = append(errs, o.Authorization.Validate()...)
	errs = append(errs, o.Metrics.Validate()...)
	if err := logsapi.Validate(o.Logs, f.gates(), nil).ToAggregate(); err != nil {
		errs = append(errs, err)
	}
	return utilerrors.NewAggregate(errs)
}

// Load decodes the content of the file that --config names, lets the flags override it, and
// validates the result, as a start does. Errors begin with [Flags.Source] of the file.
func (f *Flags) Load(file string, content []byte) (config *schedconfig.KubeSchedulerConfiguration, err error) {
	err = f.Do(func() error {
		config, err = registry.LoadConfiguration(f.Source(file), content, f.override)
		return err
	})
	return config, err
}

// override is what upstream does with the configuration that it has read from a file: of
// the flags, those of leader election count, and the deprecated ones do not.
func (f *Flags) override(config *schedconfig.KubeSchedulerConfiguration) {
	if f != nil {
		f.Options.ApplyLeaderElectionTo(config)
	}
}

// Source names a file, and the flags that override what it says.
func (f *Flags) Source(file string) string {
	if f == nil {
		return file
	}
	var over []string
	f.Options.Flags.FlagSet("leader election").VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			over = append(over, "--"+flag.Name+"="+flag.Value.String())
		}
	})
	if len(over) == 0 {
		return file
	}
	return file + " with " + strings.Join(over, " ")
}

// Enabled reports whether a feature gate is on.
func (f *Flags) Enabled(feature featuregate.Feature) bool { return f.gates().Enabled(feature) }

func (f *Flags) gates() featuregate.FeatureGate {
	if f == nil {
		return utilfeature.DefaultFeatureGate
	}
	return f.Options.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
}

// doing is held while the feature gates of this process are those of another.
var doing sync.Mutex

// Do calls do with the feature gates of the flags in place of this process's own: they
// decide which plugins a profile has by default, and which a scheduler can build. Of a
// process that does anything else with its gates meanwhile, the flags must be its own.
func (f *Flags) Do(do func() error) error {
	doing.Lock()
	defer doing.Unlock()
	theirs, ours := f.gates(), utilfeature.DefaultMutableFeatureGate
	set, restore := map[string]bool{}, map[string]bool{}
	for feature := range ours.GetAll() {
		if on := theirs.Enabled(feature); on != ours.Enabled(feature) {
			set[string(feature)], restore[string(feature)] = on, !on
		}
	}
	if len(set) == 0 {
		return do()
	}
	if err := ours.SetFromMap(set); err != nil {
		return fmt.Errorf("feature gates: %w", err)
	}
	return errors.Join(do(), ours.SetFromMap(restore))
}
