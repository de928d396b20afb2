// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulers

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// ConfigFlag is the flag by which a kube-scheduler is given its configuration.
const ConfigFlag = "config"

// Started is what a scheduler's container is started with.
type Started struct {
	// Flags are its flags; nil if they are not known, or the process does not start with
	// them: FlagsErr says which.
	Flags    *settings.Flags
	FlagsErr error
	// File is the value of --config.
	File string
	// ConfigMap and Key are where the file comes from, in the namespace of the pod; empty
	// if it comes from elsewhere, or that cannot be known before the container starts.
	ConfigMap, Key string
}

// ErrUnknownFlags is that the command line is not known before the container starts.
var ErrUnknownFlags = errors.New("the command line is not known before the container starts")

// ReadContainer reads what a scheduler's container is started with from the spec of its pod.
func ReadContainer(pod *corev1.PodSpec, c *corev1.Container) (s Started) {
	s.FlagsErr = ErrUnknownFlags
	if given, ok := arguments(c); ok {
		s.Flags, s.FlagsErr = settings.Parse(given)
	}
	if s.FlagsErr == nil {
		s.File = s.Flags.Options.ConfigFile
	} else {
		s.Flags, s.File = nil, Flag(c, ConfigFlag)
	}
	if configMap, key, ok := configMapOf(pod, c, s.File); ok {
		s.ConfigMap, s.Key = configMap, key
	}
	return s
}

// Flag returns the value of a flag, as in --NAME=VALUE or --NAME VALUE: the last one, as
// the programs of Kubernetes have it. It is empty if the container's command line does
// not have the flag. [ReadContainer] reads the flags of a scheduler of this release; this is
// for other programs.
func Flag(c *corev1.Container, name string) string {
	value := ""
	arguments := slices.Concat(c.Command, c.Args)
	for i, argument := range arguments {
		if after, ok := strings.CutPrefix(argument, "--"+name+"="); ok {
			value = after
		} else if argument == "--"+name && i+1 < len(arguments) {
			value = arguments[i+1]
		}
	}
	return value
}

// shells run a script that is among their arguments.
var shells = []string{"sh", "ash", "bash", "dash", "busybox"}

// arguments returns the arguments that the program of a container is started with, without
// the program itself: what follows its name, where another program starts it, and with
// the values of the environment variables that $(NAME) refers to; $$ is a $. ok is false if
// they are not known before the container starts: a shell makes them, or the node.
func arguments(c *corev1.Container) (arguments []string, ok bool) {
	if len(c.Command) > 0 {
		if slices.Contains(shells, path.Base(c.Command[0])) {
			return nil, false
		}
		program := max(0, slices.IndexFunc(c.Command, func(word string) bool { return strings.HasSuffix(path.Base(word), "scheduler") }))
		arguments = slices.Clone(c.Command[program+1:])
	}
	arguments = append(arguments, c.Args...)
	known := environment{variables: map[string]variable{}, open: len(c.EnvFrom) > 0}
	for i := range c.Env {
		value, ok := known.expand(c.Env[i].Value)
		known.variables[c.Env[i].Name] = variable{value, ok && c.Env[i].ValueFrom == nil}
	}
	for i, argument := range arguments {
		if arguments[i], ok = known.expand(argument); !ok {
			return nil, false
		}
	}
	return arguments, true
}

// environment is what is known of the environment variables of a container; open is that it
// has others, whose names are not known.
type environment struct {
	variables map[string]variable
	open      bool
}

type variable struct {
	value string
	known bool
}

// references are $$, which stands for $, and $(NAME).
var references = regexp.MustCompile(`\$(\$|\([^)]*\))`)

// expand does with a text what the kubelet does: a reference to a variable that there is not
// stays as it is. ok is false if one has a value that is not known.
func (e *environment) expand(text string) (expanded string, ok bool) {
	ok = true
	expanded = references.ReplaceAllStringFunc(text, func(reference string) string {
		if reference == "$$" {
			return "$"
		}
		name := reference[2 : len(reference)-1]
		v, found := e.variables[name]
		if found && v.known {
			return v.value
		}
		// Each Service gives the pods of its namespace variables of its address.
		ok = ok && !found && !e.open && !strings.Contains(name, "_SERVICE_") && !strings.Contains(name, "_PORT")
		return reference
	})
	return expanded, ok
}

// configMapOf returns the ConfigMap, and the key in it, from which the container has a file:
// of a volume of its own or of a projected one, as a whole or by subPath, with the keys
// that items name or with all. ok is false if the file comes from elsewhere, or it cannot
// be known before the container starts.
func configMapOf(pod *corev1.PodSpec, c *corev1.Container, file string) (configMap, key string, ok bool) {
	if file == "" {
		return "", "", false
	}
	if !path.IsAbs(file) && path.IsAbs(c.WorkingDir) {
		file = path.Join(c.WorkingDir, file)
	}
	mount, within := mountOf(c, path.Clean(file))
	if mount == nil || mount.SubPathExpr != "" {
		return "", "", false
	}
	within = path.Join(mount.SubPath, within)
	for i := range pod.Volumes {
		volume := &pod.Volumes[i]
		if volume.Name != mount.Name {
			continue
		}
		if source := volume.ConfigMap; source != nil {
			key, ok = keyAt(source.Items, within)
			return source.Name, key, ok
		}
		if volume.Projected == nil {
			return "", "", false
		}
		for j := range volume.Projected.Sources {
			if source := volume.Projected.Sources[j].ConfigMap; source != nil {
				if key, ok = keyAt(source.Items, within); ok && (len(source.Items) > 0 || len(volume.Projected.Sources) == 1) {
					return source.Name, key, true
				}
			}
		}
	}
	return "", "", false
}

// mountOf returns the mount that has a file, the innermost if mounts lie within each
// other, and the file's path within it.
func mountOf(c *corev1.Container, file string) (found *corev1.VolumeMount, within string) {
	longest := -1
	for i := range c.VolumeMounts {
		at := path.Clean(c.VolumeMounts[i].MountPath)
		rest, inside := strings.CutPrefix(file, strings.TrimSuffix(at, "/")+"/")
		if file == at {
			rest, inside = "", true
		}
		if inside && len(at) > longest {
			longest, found, within = len(at), &c.VolumeMounts[i], rest
		}
	}
	return found, within
}

// keyAt returns the key of a ConfigMap whose content lies at a path of its volume.
func keyAt(items []corev1.KeyToPath, within string) (key string, ok bool) {
	if len(items) == 0 {
		return within, within != "" && !strings.Contains(within, "/")
	}
	for _, item := range items {
		if path.Clean(item.Path) == within {
			return item.Key, true
		}
	}
	return "", false
}

// Content returns what a ConfigMap has under a key, as text or as bytes.
func Content(m *corev1.ConfigMap, key string) (content []byte, ok bool) {
	if text, ok := m.Data[key]; ok {
		return []byte(text), true
	}
	content, ok = m.BinaryData[key]
	return content, ok
}
