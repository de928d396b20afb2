{{- /*
Copyright The Berth Authors.
SPDX-License-Identifier: Apache-2.0

The profile is the union of those that config/berth-scheduler has for the features that
are on.
*/ -}}

{{- define "berth.profileName" -}}
{{- $name := .Values.profile | default .Release.Name -}}
{{- if and .Values.features.tenancy (not (hasSuffix "-tenancy" $name)) -}}
{{- if .Values.profile }}{{ fail (printf "profile: is %q, must end in \"-tenancy\" with features.tenancy: the policies trust only names that no scheduler serves without tenancy" $name) }}{{ end -}}
{{- $name = printf "%s-tenancy" $name -}}
{{- end -}}
{{- if and (hasSuffix "-tenancy" $name) (not .Values.features.tenancy) -}}
{{- fail (printf "profile: is %q, must not end in \"-tenancy\" without features.tenancy: no scheduler serves such a name without tenancy" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- /*
berth.features says where the profile of each feature is, which of its plugins are the
feature's (all if none is named), and of which the values have args.
*/ -}}
{{- define "berth.features" -}}
- {feature: labelPresence, file: config/all-plugins.yaml, plugins: [LabelPresence], argsOf: LabelPresence}
- {feature: tenancy, file: config/tenancy.yaml, plugins: [LabelPresence]}
- {feature: gang, file: config/gpu-gang.yaml, plugins: [Coscheduling, PrioritySort], argsOf: Coscheduling}
- {feature: gpu, file: config/gpu.yaml, argsOf: GPUDevice}
- {feature: colocation, file: config/colocation.yaml, argsOf: Colocation}
{{- end -}}

{{- /*
berth.pluginSets merges the sets of plugins of two profiles, in place. A plugin that both
have keeps the later place, and NodeCandidates is last under multiPoint: it narrows a cycle
by what all others have found.
*/ -}}
{{- define "berth.pluginSets" -}}
{{- $into := .into -}}{{- $only := .only -}}
{{- range $point, $sets := .from }}{{ range $set, $entries := $sets -}}
{{- if not (hasKey $into $point) }}{{ $_ := set $into $point dict }}{{ end -}}
{{- $merged := get (get $into $point) $set | default list -}}
{{- range $entry := $entries }}{{ if or (not $only) (has $entry.name $only) -}}
{{- $kept := list -}}
{{- range $merged }}{{ if ne .name $entry.name }}{{ $kept = append $kept . }}{{ end }}{{ end -}}
{{- $merged = append $kept $entry -}}
{{- end }}{{ end -}}
{{- if eq $point "multiPoint" -}}
{{- $others := list -}}{{- $last := list -}}
{{- range $merged }}{{ if eq .name "NodeCandidates" }}{{ $last = append $last . }}{{ else }}{{ $others = append $others . }}{{ end }}{{ end -}}
{{- $merged = concat $others $last -}}
{{- end -}}
{{- if $merged }}{{ $_ := set (get $into $point) $set $merged }}{{ end -}}
{{- end }}{{ if not (get $into $point) }}{{ $_ := unset $into $point }}{{ end }}{{ end -}}
{{- end -}}

{{- define "berth.profile" -}}
{{- $root := . -}}
{{- $profile := dict "schedulerName" (include "berth.profileName" .) -}}
{{- $plugins := dict -}}{{- $args := dict -}}{{- $order := list -}}
{{- range $f := fromYamlArray (include "berth.features" .) }}{{ if and (get $root.Values.features $f.feature) (or (ne $f.feature "gang") (eq $root.Values.gang.by "Coscheduling")) -}}
{{- $documented := index (fromYaml (include "berth.read" (dict "root" $root "file" $f.file))).profiles 0 -}}
{{- include "berth.pluginSets" (dict "into" $plugins "from" ($documented.plugins | default dict) "only" $f.plugins) -}}
{{- range $documented.pluginConfig }}{{ if or (not $f.plugins) (has .name $f.plugins) -}}
{{- if not (has .name $order) }}{{ $order = append $order .name }}{{ end -}}
{{- $own := .args -}}
{{- if eq .name ($f.argsOf | default "") }}{{ $own = mergeOverwrite $own (deepCopy (get $root.Values $f.feature).args) }}{{ end -}}
{{- if eq $f.feature "tenancy" }}{{ $_ := set $own.tenancy "exemptNamespaces" (fromJsonArray (include "berth.exempt" (dict "root" $root))) }}{{ end -}}
{{- $_ := set $args .name (mergeOverwrite (get $args .name | default dict) $own) -}}
{{- end }}{{ end -}}
{{- range $key, $value := omit $documented "schedulerName" "plugins" "pluginConfig" }}{{ if not $f.plugins }}{{ $_ := set $profile $key $value }}{{ end }}{{ end -}}
{{- end }}{{ end -}}
{{- with $plugins }}{{ $_ := set $profile "plugins" . }}{{ end -}}
{{- if $order -}}
{{- $config := list -}}
{{- range $order }}{{ $config = append $config (dict "name" . "args" (get $args .)) }}{{ end -}}
{{- $_ := set $profile "pluginConfig" $config -}}
{{- end -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceNamespace: {{ .Release.Namespace }}
  resourceName: {{ .Release.Name }}
  retryPeriod: 500ms
profiles:
{{ toYaml (list $profile) }}
{{- end -}}
