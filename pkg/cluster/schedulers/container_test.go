// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulers

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestConfigMap finds the key behind a file in the ways in which a ConfigMap can be
// mounted.
func TestConfigMap(t *testing.T) {
	const whole = "volumes: [{name: v, configMap: {name: m}}]\ncontainers: [{name: c, workingDir: /etc, volumeMounts: [{name: v, mountPath: /etc/berth/}]}]"
	const items = "volumes: [{name: v, configMap: {name: m, items: [{key: prod.yaml, path: deep/config.yaml}]}}]\ncontainers: [{name: c, volumeMounts: [{name: v, mountPath: /etc/berth}]}]"
	const subPath = "volumes: [{name: v, configMap: {name: m}}]\ncontainers: [{name: c, volumeMounts: [{name: v, mountPath: /etc/berth/profile.yaml, subPath: a.yaml}]}]"
	const subPathOfItems = "volumes: [{name: v, configMap: {name: m, items: [{key: k, path: b.yaml}]}}]\ncontainers: [{name: c, volumeMounts: [{name: v, mountPath: /profile.yaml, subPath: b.yaml}]}]"
	const subFolder = "volumes: [{name: v, configMap: {name: m, items: [{key: k, path: deep/b.yaml}]}}]\ncontainers: [{name: c, volumeMounts: [{name: v, mountPath: /etc, subPath: deep}]}]"
	const nested = "volumes: [{name: v, configMap: {name: m}}, {name: w, configMap: {name: inner}}]\ncontainers: [{name: c, volumeMounts: [{name: v, mountPath: /etc}, {name: w, mountPath: /etc/berth}]}]"
	const projected = "volumes: [{name: v, projected: {sources: [{configMap: {name: other, items: [{key: x, path: x}]}}, {configMap: {name: m, items: [{key: k, path: a.yaml}]}}]}}]\ncontainers: [{name: c, volumeMounts: [{name: v, mountPath: /etc}]}]"
	const expression = "volumes: [{name: v, configMap: {name: m}}]\ncontainers: [{name: c, volumeMounts: [{name: v, mountPath: /etc, subPathExpr: $(POD)}]}]"
	const secret = "volumes: [{name: v, secret: {secretName: m}}]\ncontainers: [{name: c, volumeMounts: [{name: v, mountPath: /etc}]}]"
	for _, tt := range []struct{ name, spec, file, want string }{
		{"a volume as a whole", whole, "/etc/berth/a.yaml", "m/a.yaml"},
		{"a path that is not clean", whole, "/etc/./berth//a.yaml", "m/a.yaml"},
		{"a relative path", whole, "berth/a.yaml", "m/a.yaml"},
		{"another folder", whole, "/etc/other/a.yaml", ""},
		{"a folder that only begins so", whole, "/etc/berthed/a.yaml", ""},
		{"a folder below", whole, "/etc/berth/deeper/a.yaml", ""},
		{"the folder itself", whole, "/etc/berth", ""},
		{"no file", whole, "", ""},
		{"items", items, "/etc/berth/deep/config.yaml", "m/prod.yaml"},
		{"a key that items leave out", items, "/etc/berth/other.yaml", ""},
		{"a key that items put elsewhere", items, "/etc/berth/prod.yaml", ""},
		{"subPath", subPath, "/etc/berth/profile.yaml", "m/a.yaml"},
		{"beside a subPath", subPath, "/etc/berth/a.yaml", ""},
		{"subPath of items", subPathOfItems, "/profile.yaml", "m/k"},
		{"subPath of a folder", subFolder, "/etc/b.yaml", "m/k"},
		{"the inner of two mounts", nested, "/etc/berth/a.yaml", "inner/a.yaml"},
		{"the outer of two mounts", nested, "/etc/a.yaml", "m/a.yaml"},
		{"a projected volume", projected, "/etc/a.yaml", "m/k"},
		{"an expression that only the kubelet knows", expression, "/etc/a.yaml", ""},
		{"a Secret", secret, "/etc/a.yaml", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var spec corev1.PodSpec
			if err := yaml.UnmarshalStrict([]byte(tt.spec), &spec); err != nil {
				t.Fatal(err)
			}
			configMap, key, ok := configMapOf(&spec, &spec.Containers[0], tt.file)
			if got := configMap + "/" + key; ok != (tt.want != "") || ok && got != tt.want {
				t.Errorf("%s is from %q (%t), want %q", tt.file, got, ok, tt.want)
			}
		})
	}
}

// TestFlag reads command lines as the programs of Kubernetes do.
func TestFlag(t *testing.T) {
	for _, tt := range []struct {
		name          string
		command, args []string
		want          string
	}{
		{name: "in one argument", args: []string{"--config=a"}, want: "a"},
		{name: "in two", args: []string{"--config", "a"}, want: "a"},
		{name: "of the command", command: []string{"berth-scheduler", "--config=a"}, want: "a"},
		{name: "twice: the last", command: []string{"x", "--config=a"}, args: []string{"--config", "b"}, want: "b"},
		{name: "none", args: []string{"--configuration=a", "config"}},
		{name: "cut off", args: []string{"--config"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &corev1.Container{Command: tt.command, Args: tt.args}
			if got := Flag(c, ConfigFlag); got != tt.want {
				t.Errorf("Flag is %q, want %q", got, tt.want)
			}
		})
	}
}

// TestArguments: what a process is given, as the kubelet makes it of a container.
func TestArguments(t *testing.T) {
	for _, tt := range []struct {
		name, container string
		want            []string
		wantUnknown     bool
	}{
		{name: "of the image's program", container: "args: [--a=b, c]", want: []string{"--a=b", "c"}},
		{name: "of a program", container: "command: [/usr/bin/berth-scheduler, --a]\nargs: [--b]", want: []string{"--a", "--b"}},
		{name: "of a renamed program", container: "command: [/berth, --a]", want: []string{"--a"}},
		{name: "behind another program", container: "command: [tini, --, berth-scheduler, --a]", want: []string{"--a"}},
		{name: "of a shell", container: "command: [/bin/sh, -c]\nargs: [exec berth-scheduler --leader-elect=false]", wantUnknown: true},
		{name: "with a variable", container: "args: [--a=$(X)]\nenv: [{name: X, value: b}]", want: []string{"--a=b"}},
		{name: "with a variable of another object", container: "args: [--a=$(X)]\nenv: [{name: X, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]", wantUnknown: true},
		{name: "with one that only the ConfigMaps of envFrom may have", container: "args: [--a=$(Y)]\nenvFrom: [{configMapRef: {name: m}}]", wantUnknown: true},
		{name: "with one that env has beside envFrom", container: "args: [--a=$(X)]\nenv: [{name: X, value: b}]\nenvFrom: [{configMapRef: {name: m}}]", want: []string{"--a=b"}},
		{name: "with one of a Service, which the node knows", container: "args: [--master=$(KUBERNETES_SERVICE_HOST)]", wantUnknown: true},
		{name: "with an escaped reference", container: "args: [--a=$$(X), --b=$$$(X), --c=$X$]\nenv: [{name: X, value: b}]\nenvFrom: [{configMapRef: {name: m}}]", want: []string{"--a=$(X)", "--b=$b", "--c=$X$"}},
		{name: "with a value that is a reference itself", container: "args: [--a=$(V)]\nenv: [{name: X, value: b}, {name: V, value: $(X)/$(Z)}, {name: Z, value: c}]", want: []string{"--a=b/$(Z)"}},
		{name: "with a variable that is set twice", container: "args: [--a=$(X)]\nenv: [{name: X, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: X, value: b}]", want: []string{"--a=b"}},
		{name: "with one that is not there", container: "args: [--a=$(Y)]\nenv: [{name: X, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]", want: []string{"--a=$(Y)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c corev1.Container
			if err := yaml.UnmarshalStrict([]byte(tt.container), &c); err != nil {
				t.Fatal(err)
			}
			got, ok := arguments(&c)
			if ok == tt.wantUnknown || !slices.Equal(got, tt.want) {
				t.Errorf("got %q (known: %t), want %q", got, ok, tt.want)
			}
		})
	}
}

func TestContent(t *testing.T) {
	m := &corev1.ConfigMap{Data: map[string]string{"a": "text"}, BinaryData: map[string][]byte{"b": []byte("bytes")}}
	for key, want := range map[string]string{"a": "text", "b": "bytes", "c": ""} {
		if got, ok := Content(m, key); string(got) != want || ok != (want != "") {
			t.Errorf("%s: %q, %t", key, got, ok)
		}
	}
}
