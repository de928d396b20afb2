// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	defaultRounds       = 3
	defaultRoundTimeout = 5 * time.Minute
	defaultClientQPS    = 5000
	defaultNamePrefix   = "node"
	defaultPodsPerNode  = 110

	defaultHostileWrites   = 10
	defaultWaitingPods     = 100
	defaultHostileServices = maxServices
	defaultConsentKiB      = maxConsentKiB
)

// Read reads a workload file, YAML or JSON, fills in defaults and checks it. Every
// error names the file and, where there is one, the field; all that are wrong are
// told at once (errors.Join). Fields that no workload has, and fields that are there
// twice, are errors.
func Read(path string) (*Workload, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("workload file: %w", err)
	}
	w, errs := decode(content)
	if w != nil {
		sum := sha256.Sum256(content)
		w.Path, w.SHA256 = path, hex.EncodeToString(sum[:])
		for _, err := range w.checkProfiles() {
			errs = append(errs, err)
		}
	}
	for i, err := range errs {
		errs[i] = fmt.Errorf("%s: %w", path, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return w, nil
}

// Profile returns the path of the configuration file that the workload names for a
// scheduler, and false if it names none.
func (w *Workload) Profile(schedulerName string) (string, bool) {
	path, named := w.Spec.Profiles[schedulerName]
	if !named {
		return "", false
	}
	return filepath.Join(filepath.Dir(w.Path), path), true
}

// decode decodes one workload and validates it. The workload is nil where nothing
// can be said about its fields.
func decode(content []byte) (*Workload, []error) {
	raw, err := document(content)
	if err != nil {
		return nil, []error{err}
	}
	var kind struct {
		APIVersion any `json:"apiVersion"`
		Kind       any `json:"kind"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		return nil, []error{errors.New("is not a Kubernetes object: want apiVersion, kind, metadata and spec")}
	}
	if kind.APIVersion != APIVersion || kind.Kind != Kind {
		return nil, []error{fmt.Errorf("is apiVersion %v, kind %v: must be %s, %s", orNone(kind.APIVersion), orNone(kind.Kind), APIVersion, Kind)}
	}
	// What the file leaves out keeps these.
	w := &Workload{Spec: Spec{
		Rounds:       defaultRounds,
		RoundTimeout: Duration{Duration: defaultRoundTimeout},
		ClientQPS:    defaultClientQPS,
	}}
	errs, err := kjson.UnmarshalStrict(raw, w)
	if err != nil {
		return nil, []error{describe(err)}
	}
	w.setDefaults()
	for _, err := range validate(w) {
		errs = append(errs, err)
	}
	return w, errs
}

// document returns the one YAML document of a file, as JSON.
func document(content []byte) ([]byte, error) {
	var only []byte
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		next, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		raw, err := yaml.YAMLToJSONStrict(next)
		switch {
		case err != nil:
			return nil, err
		case string(raw) == "null": // comments only
		case only != nil:
			return nil, errors.New("holds several documents: a workload is a file of its own")
		default:
			only = raw
		}
	}
	if only == nil {
		return nil, errors.New("the file is empty")
	}
	return only, nil
}

func orNone(value any) any {
	if value == nil {
		return "(none)"
	}
	return value
}

// describe says which field has a value of the wrong type.
func describe(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) || wrong.Field == "" {
		return err
	}
	hint := ""
	if wrong.Value == "bool" {
		hint = " (in YAML, y, n, yes, no, on and off are booleans unless they stand in quotes)"
	}
	return fmt.Errorf("%s: a %s cannot be a value of this field%s", wrong.Field, wrong.Value, hint)
}

// setDefaults fills in what is missing in lists, and the names of choices.
func (w *Workload) setDefaults() {
	spec := &w.Spec
	setDefault(&spec.Order, Shuffled)
	setDefault(&spec.Arrival.Type, Burst)
	if hostile := spec.Hostile; hostile != nil {
		setDefault(&hostile.WritesPerSecond, defaultHostileWrites)
		setDefault(&hostile.WaitingPods, defaultWaitingPods)
		setDefault(&hostile.Services, defaultHostileServices)
		setDefault(&hostile.ConsentKiB, defaultConsentKiB)
	}
	for i := range spec.Nodes {
		setDefault(&spec.Nodes[i].NamePrefix, defaultNamePrefix)
		setDefault(&spec.Nodes[i].Pods, ptr.To[int64](defaultPodsPerNode))
	}
	for i := range spec.Pods {
		if lifetime := spec.Pods[i].Lifetime; lifetime != nil {
			setDefault(&lifetime.Distribution, Exponential)
		}
	}
	for i := range spec.Applications {
		app := &spec.Applications[i]
		setDefault(&app.Copies, ptr.To(1))
		setDefault(&app.Replicas, ptr.To(1))
		setDefault(&app.Colocate, Neighbours)
		for j := range app.Services {
			setDefault(&app.Services[j].Replicas, ptr.To(*app.Replicas))
		}
	}
}

// setDefault gives a field its default where it is missing.
func setDefault[T comparable](value *T, fallback T) {
	var missing T
	if *value == missing {
		*value = fallback
	}
}

// checkProfiles reports profiles that cannot be read. What is in them is up to the
// scheduler.
func (w *Workload) checkProfiles() field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "profiles")
	for _, name := range sortedKeys(w.Spec.Profiles) {
		if path := w.Spec.Profiles[name]; path == "" || filepath.IsAbs(path) {
			continue // which is told already
		}
		file, _ := w.Profile(name)
		if info, err := os.Stat(file); err != nil {
			errs = append(errs, field.Invalid(path.Key(name), w.Spec.Profiles[name], err.Error()))
		} else if !info.Mode().IsRegular() {
			errs = append(errs, field.Invalid(path.Key(name), w.Spec.Profiles[name], "is not a file"))
		}
	}
	return errs
}
