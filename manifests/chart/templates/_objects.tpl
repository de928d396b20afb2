{{- /*
Copyright The Berth Authors.
SPDX-License-Identifier: Apache-2.0

The objects come from manifests/base, components and random-scheduler, and the profiles from
config/berth-scheduler; files/ links to all of them. The templates set the fields that differ
between instances.
*/ -}}

{{- /* berth.read returns a file of files/; a missing file is an error. Takes root, file. */ -}}
{{- define "berth.read" -}}
{{- required (printf "files/%s: missing from the chart: install or package the chart from a checkout with working symbolic links" .file) (.root.Files.Get (printf "files/%s" .file)) -}}
{{- end -}}

{{- /* berth.fullname is the instance's name. Takes the root. */ -}}
{{- define "berth.fullname" -}}
{{- .Values.fullnameOverride | default .Release.Name -}}
{{- end -}}

{{- /* berth.serviceAccount is the scheduler's ServiceAccount. Takes the root. */ -}}
{{- define "berth.serviceAccount" -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.name: Required value with serviceAccount.create=false" -}}
{{- end -}}
{{- .Values.serviceAccount.name | default (include "berth.fullname" .) -}}
{{- end -}}

{{- /* berth.rename replaces the name in the manifests with the instance's name. Takes root, name. */ -}}
{{- define "berth.rename" -}}
{{- $name := include "berth.fullname" .root -}}
{{- .name | replace "random-scheduler" (printf "%s-random" $name) | replace "berth-scheduler" $name -}}
{{- end -}}

{{- /* berth.labels are the labels of every object, as YAML. Takes root, and name: the name of the part. */ -}}
{{- define "berth.labels" -}}
app.kubernetes.io/name: {{ .name | default "berth-scheduler" }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: berth
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{- /* berth.object returns an object of the manifests as this instance needs it. Takes root, object. */ -}}
{{- define "berth.object" -}}
{{- $root := .root -}}
{{- $o := .object -}}
{{- $m := $o.metadata -}}
{{- if eq (get $m "namespace") "berth-system" }}{{ $_ := set $m "namespace" $root.Release.Namespace }}{{ end -}}
{{- $account := and (eq $o.kind "ServiceAccount") (eq $m.name "berth-scheduler") -}}
{{- $_ := set $m "name" (ternary (include "berth.serviceAccount" $root) (include "berth.rename" (dict "root" $root "name" $m.name)) $account) -}}
{{- $_ := set $m "labels" (fromYaml (include "berth.labels" (dict "root" $root "name" (index $m.labels "app.kubernetes.io/name")))) -}}
{{- with $o.roleRef }}{{ $_ := set . "name" (include "berth.rename" (dict "root" $root "name" .name)) }}{{ end -}}
{{- range $o.subjects -}}
{{- $_ := set . "name" (ternary (include "berth.serviceAccount" $root) (include "berth.rename" (dict "root" $root "name" .name)) (eq .name "berth-scheduler")) -}}
{{- $_ := set . "namespace" $root.Release.Namespace -}}
{{- end -}}
{{- range $o.rules }}{{ if .resourceNames -}}
{{- $renamed := list -}}
{{- range .resourceNames }}{{ $renamed = append $renamed (include "berth.rename" (dict "root" $root "name" .)) }}{{ end -}}
{{- $_ := set . "resourceNames" $renamed -}}
{{- end }}{{ end -}}
{{- with ($o.spec | default dict).variables -}}
{{- range . }}{{ if hasKey ($.variables | default dict) .name }}{{ $_ := set . "expression" (get $.variables .name) }}{{ end }}{{ end -}}
{{- end -}}
{{- with $.edit -}}
{{- $_ := mergeOverwrite $o (deepCopy .) -}}
{{- end -}}
{{ toYaml $o }}
{{- end -}}

{{- /*
berth.objects returns every object of a file. Takes root, file; variables: CEL expressions that
replace those of the policies' variables with the same names; edits: values to merge into
objects, by kind and name. Roles and their bindings are left out if rbac.create is false.
*/ -}}
{{- define "berth.objects" -}}
{{- $left := ternary (list) (list "Role" "RoleBinding" "ClusterRole" "ClusterRoleBinding") .root.Values.rbac.create -}}
{{- range regexSplit "(?m)^---\\s*$" (include "berth.read" (dict "root" .root "file" .file)) -1 }}
{{- $o := fromYaml . -}}
{{- with get $o "Error" }}{{ fail (printf "%s: %s" $.file .) }}{{ end -}}
{{- if and (get $o "kind") (not (has $o.kind $left)) }}
---
{{ include "berth.object" (dict "root" $.root "object" $o "variables" $.variables "edit" (get ($.edits | default dict) (printf "%s/%s" $o.kind $o.metadata.name))) }}
{{ end }}{{ end }}
{{- end -}}

{{- /* berth.celList is a list of string literals of the Common Expression Language. Takes the list. */ -}}
{{- define "berth.celList" -}}
[{{ range $i, $s := . }}{{ if $i }}, {{ end }}'{{ $s | replace "\\" "\\\\" | replace "'" "\\'" }}'{{ end }}]
{{- end -}}

{{- /* berth.image takes root, and image with repository, tag and digest. */ -}}
{{- define "berth.image" -}}
{{- if .image.digest }}{{ .image.repository }}@{{ .image.digest }}{{ else }}{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end -}}
{{- end -}}

{{- /*
berth.pod sets the values that all pods of a release share in a Deployment.
Takes root, deployment.
*/ -}}
{{- define "berth.pod" -}}
{{- $values := .root.Values -}}
{{- $template := .deployment.spec.template -}}
{{- with $values.podLabels }}{{ $_ := set $template.metadata "labels" (merge $template.metadata.labels .) }}{{ end -}}
{{- with $values.podAnnotations }}{{ $_ := set $template.metadata "annotations" (merge ($template.metadata.annotations | default dict) .) }}{{ end -}}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "imagePullSecrets" }}{{ with get $values $field }}{{ $_ := set $template.spec $field . }}{{ end }}{{ end -}}
{{- $c := index $template.spec.containers 0 -}}
{{- $_ := set $c "imagePullPolicy" $values.image.pullPolicy -}}
{{- with $values.extraEnv }}{{ $_ := set $c "env" . }}{{ end -}}
{{- end -}}

{{- /* berth.exempt are the exempt namespaces as a JSON list. Takes root, and more: additional namespaces. */ -}}
{{- define "berth.exempt" -}}
{{ concat .root.Values.exemptNamespaces (list .root.Release.Namespace) (.more | default list) | uniq | toJson }}
{{- end -}}

{{- /* berth.subjects are the subjects of a binding. Takes subjects, and field: the value with their namespace. */ -}}
{{- define "berth.subjects" -}}
{{- range .subjects }}
- kind: {{ .kind }}
  name: {{ .name | quote }}
  {{- if eq .kind "ServiceAccount" }}
  namespace: {{ required (printf "%s: Required value with kind ServiceAccount" $.field) .namespace }}
  {{- else }}
  apiGroup: rbac.authorization.k8s.io
  {{- end }}
{{- end }}
{{- end -}}
