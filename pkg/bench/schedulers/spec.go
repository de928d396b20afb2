// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/colocation"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/version"
)

// BareBinderName is the name by which a benchmark calls BareBinder.
const BareBinderName = "bare-binder"

// The schedulers' binaries.
const (
	stockBinary  = "kube-scheduler"
	berthBinary  = "berth-scheduler"
	randomBinary = "random-scheduler"
)

// versionTimeout is how long a binary may take to say its version.
const versionTimeout = 20 * time.Second

// ErrProfile marks an error of a profile: its file cannot be read, is not valid, or
// does not serve the scheduler's name.
var ErrProfile = errors.New("the profile cannot be used")

// Spec is a scheduler that a benchmark can run.
type Spec struct {
	// Name is the spec.schedulerName of its pods.
	Name string
	// Binary is the path of its binary; empty for BareBinder, which has none, and on a
	// cluster where somebody else runs it.
	Binary string
	// Version is what the binary says of itself; empty if it was not asked.
	Version string
	// Profile is the KubeSchedulerConfiguration that it runs with, and ProfileSHA256
	// the hash of the file; both are empty for built-in defaults.
	Profile, ProfileSHA256 string
	// Shares is whether it knows shares of devices (GPUDevice).
	Shares bool
	// Colocates is whether its profile has the plugin Colocation; false where the
	// profile is not known.
	Colocates bool
	// Notes are sentences about how it runs that a reader of its numbers must know.
	Notes []string

	// config is the profile, decoded; nil without one.
	config *schedconfig.KubeSchedulerConfiguration
	// content is the file of the profile.
	content []byte
}

// Bare reports whether this is BareBinder, which places nothing by any rule.
func (s *Spec) Bare() bool { return s.Name == BareBinderName }

// FindOptions say where schedulers and profiles are.
type FindOptions struct {
	// BinDir is the folder with the binaries.
	BinDir string
	// Profiles are configuration files by the name of the scheduler. default-scheduler
	// needs none, random-scheduler and bare-binder take none, and every other name needs
	// one.
	Profiles map[string]string
}

// bareSpec is BareBinder's.
func bareSpec() *Spec {
	return &Spec{
		Name: BareBinderName, Version: "kubectl-berth " + version.String(),
		Notes: []string{"It is no scheduler: it only posts Bindings, to the nodes in turn, and shows what the API server allows."},
	}
}

// Find returns how the scheduler of a name is started, and fails if that cannot
// work: if the binary is not there or does not run, or if the file of the profile is
// not valid or does not serve the name. Nothing is left running.
func Find(ctx context.Context, name string, options FindOptions) (*Spec, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	spec := &Spec{Name: name}
	profile := options.Profiles[name]
	binary := berthBinary
	switch name {
	case BareBinderName:
		if profile != "" {
			return nil, fmt.Errorf("%s: %w: it takes none, and %s is given", name, ErrProfile, profile)
		}
		return bareSpec(), nil
	case names.RandomScheduler:
		if profile != "" {
			return nil, fmt.Errorf("%s: %w: it takes none, and %s is given", name, ErrProfile, profile)
		}
		binary = randomBinary
		spec.Notes = append(spec.Notes, "It runs with --fit=resources: of the nodes with room it takes any.")
	case corev1.DefaultSchedulerName:
		binary = stockBinary
	default:
		if profile == "" {
			return nil, fmt.Errorf("%s: %w: there is none: give one with --config %[1]s=PROFILE.yaml", name, ErrProfile)
		}
	}
	if profile != "" {
		if err := spec.load(profile); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", name, ErrProfile, err)
		}
	}
	spec.Binary = filepath.Join(options.BinDir, binary)
	return spec, spec.askVersion(ctx)
}

// ExistingSpec is a scheduler of an existing cluster, where somebody else has started it.
func ExistingSpec(name string, shares bool) *Spec {
	if name == BareBinderName {
		return bareSpec()
	}
	return &Spec{
		Name: name, Shares: shares,
		Notes: []string{"Its client's rate limit cannot be seen, and may be what was measured: kube-scheduler's is 50 requests/s unless its configuration says otherwise (clientConnection)."},
	}
}

// CheckName returns why a pod's spec.schedulerName cannot be this; nil if it can.
func CheckName(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%q is no scheduler's name: %s", name, strings.Join(problems, "; "))
	}
	return nil
}

// load reads the profile, strictly.
func (s *Spec) load(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	config, err := registry.LoadConfiguration(file, content)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	s.Profile, s.ProfileSHA256, s.config, s.content = file, hex.EncodeToString(sum[:]), config, content
	index := s.profileIndex()
	if index < 0 {
		var has []string
		for i := range config.Profiles {
			has = append(has, config.Profiles[i].SchedulerName)
		}
		return fmt.Errorf("%s: profiles: none has schedulerName %q, and which of %s is meant cannot be told: leave one, which then runs under that name, or rename one", file, s.Name, strings.Join(has, ", "))
	}
	if own := config.Profiles[index].SchedulerName; own != s.Name {
		s.Notes = append(s.Notes, fmt.Sprintf("The profile calls itself %s; it runs as %s here.", own, s.Name))
	}
	s.Shares, s.Colocates = bindsShares(&config.Profiles[index]), colocates(&config.Profiles[index])
	return nil
}

// profileIndex is the profile in the file that serves the name: the one of that
// name, or the only one; -1 if there is none.
func (s *Spec) profileIndex() int {
	index := slices.IndexFunc(s.config.Profiles, func(p schedconfig.KubeSchedulerProfile) bool { return p.SchedulerName == s.Name })
	if index < 0 && len(s.config.Profiles) == 1 {
		return 0
	}
	return index
}

// bindsShares reports whether a profile binds with GPUDevice.
func bindsShares(profile *schedconfig.KubeSchedulerProfile) bool {
	return profile.Plugins != nil && slices.ContainsFunc(slices.Concat(profile.Plugins.MultiPoint.Enabled, profile.Plugins.Bind.Enabled),
		func(p schedconfig.Plugin) bool { return p.Name == gpudevice.Name })
}

// lease is where the scheduler is elected.
func (s *Spec) lease() (namespace, name string, elected bool) {
	switch {
	case s.Name == names.RandomScheduler:
		return "", "", false
	case s.config == nil:
		// The defaults of every scheduler that does not say otherwise.
		return metav1.NamespaceSystem, stockBinary, true
	}
	election := &s.config.LeaderElection
	return election.ResourceNamespace, election.ResourceName, election.LeaderElect
}

// askVersion runs the binary for its version, which shows that it is one.
func (s *Spec) askVersion(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, s.Binary, "--version").Output()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: no %s in %s: build it with make build, or name the folder with --bin-dir", s.Name, filepath.Base(s.Binary), filepath.Dir(s.Binary))
	}
	if err != nil {
		return fmt.Errorf("%s: %s --version: %w", s.Name, s.Binary, err)
	}
	s.Version = strings.TrimSpace(string(out))
	return nil
}

// colocates reports whether a profile filters with Colocation.
func colocates(profile *schedconfig.KubeSchedulerProfile) bool {
	return profile.Plugins != nil && slices.ContainsFunc(slices.Concat(profile.Plugins.MultiPoint.Enabled, profile.Plugins.Filter.Enabled),
		func(p schedconfig.Plugin) bool { return p.Name == colocation.Name })
}
