{{- /*
Copyright The Berth Authors.
SPDX-License-Identifier: Apache-2.0

The profile combines the files in config/berth-scheduler for the enabled features.
*/ -}}

{{- define "berth.profileName" -}}
{{- $name := .Values.profile | default (include "berth.fullname" .) -}}
{{- if and .Values.features.tenancy (not (hasSuffix "-tenancy" $name)) -}}
{{- if .Values.profile }}{{ fail (printf "profile: is %q, must end in \"-tenancy\" with features.tenancy: the policies trust only such names" $name) }}{{ end -}}
{{- $name = printf "%s-tenancy" $name -}}
{{- end -}}
{{- if and (hasSuffix "-tenancy" $name) (not .Values.features.tenancy) -}}
{{- fail (printf "profile: is %q, must not end in \"-tenancy\" without features.tenancy: berth-scheduler rejects such a name without tenancy" $name) -}}
{{- end -}}
{{- if eq $name "default-scheduler" -}}
{{- fail "profile: is \"default-scheduler\", the name that the cluster's own scheduler serves: choose another name. To replace that scheduler, see \"Instead of the cluster's scheduler\" in manifests/README.md" -}}
{{- end -}}
{{- if and .Values.features.randomScheduler (eq $name (printf "%s-random" (include "berth.fullname" .))) -}}
{{- fail (printf "profile: is %q, which the random scheduler of this release serves: choose another name" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- /*
berth.checkNames rejects an upgrade that renames the profile without an explicit value:
pods that name the old profile would stay Pending. It also rejects an upgrade that renames
the instance, including its lease: two schedulers would run side by side for a while.
*/ -}}
{{- define "berth.checkNames" -}}
{{- if .Release.IsUpgrade -}}
{{- $name := include "berth.profileName" . -}}{{- $config := printf "%s-config" (include "berth.fullname" .) -}}
{{- range (lookup "v1" "ConfigMap" .Release.Namespace "").items -}}
{{- $content := get (.data | default dict) "profile.yaml" -}}
{{- if and $content (eq (get (.metadata.annotations | default dict) "meta.helm.sh/release-name") $.Release.Name) -}}
{{- if ne .metadata.name $config -}}
{{- fail (printf "fullnameOverride: this upgrade renames the instance from %q: two schedulers would run at the same time for a while. Uninstall and reinstall the release" (trimSuffix "-config" .metadata.name)) -}}
{{- end -}}
{{- $was := (index (fromYaml $content).profiles 0).schedulerName -}}
{{- if and (ne $was $name) (not $.Values.profile) -}}
{{- fail (printf "profile: this upgrade changes the schedulerName from %q to %q, and pods that name %q would stay Pending. To do this, set profile=%s, and change spec.schedulerName of the workloads" $was $name $was $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /*
berth.checkCluster rejects a cluster whose Kubernetes release berth-scheduler does not
support. It does not use kubeVersion of Chart.yaml, which "helm template", without a
cluster, compares with the release that Helm was built for.
*/ -}}
{{- define "berth.checkCluster" -}}
{{- $version := .Capabilities.KubeVersion.Version -}}
{{- if not (semverCompare ">=1.36.0-0 <1.38.0-0" $version) -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- fail (printf "the cluster runs Kubernetes %s, but berth-scheduler %s supports only 1.36 and 1.37" $version .Chart.AppVersion) -}}
{{- end -}}
{{- if and .Values.features.gang (eq .Values.gang.by "Kubernetes") -}}
{{- fail (printf "features.gang: the feature gates differ between Kubernetes 1.36 and 1.37, and %s is neither: set the cluster's release, for example helm template --kube-version=1.36.0" $version) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* berth.poolLock is the name of the ClusterRoleBinding that marks who serves the pool: base/rbac.yaml. */ -}}
{{- define "berth.poolLock" -}}
berth:gpu-pool{{ with .Values.gpu.pool }}:{{ . }}{{ end }}
{{- end -}}

{{- /*
berth.checkPool rejects a pool whose binding another installation holds, before anything is installed.
If two are installed at the same moment, the API server rejects one.
*/ -}}
{{- define "berth.checkPool" -}}
{{- $lock := lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" (include "berth.poolLock" .) -}}
{{- if $lock -}}
{{- $annotations := $lock.metadata.annotations | default dict -}}
{{- $release := get $annotations "meta.helm.sh/release-name" -}}{{- $namespace := get $annotations "meta.helm.sh/release-namespace" -}}
{{- if or (ne $release .Release.Name) (ne $namespace .Release.Namespace) -}}
{{- $owner := printf "an installation without Helm (ClusterRole %s; manifests/base takes a pool with every profile)" $lock.roleRef.name -}}
{{- if $release }}{{ $owner = printf "release %s in namespace %s" $release $namespace }}{{ end -}}
{{- fail (printf "gpu.pool: %s holds the binding of GPU pool %q (ClusterRoleBinding %s), and two instances with one pool would allocate its devices twice: set gpu.pool to another name, and the label berth.dev/gpu-pool on the nodes of this release" $owner .Values.gpu.pool $lock.metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /*
berth.features lists, for each feature, the file of its profile, the plugins of that profile
that belong to the feature (default: all), and the plugin whose args are in the values.
*/ -}}
{{- define "berth.features" -}}
- {feature: labelPresence, file: config/all-plugins.yaml, plugins: [LabelPresence], argsOf: LabelPresence}
- {feature: tenancy, file: config/tenancy.yaml, plugins: [LabelPresence]}
- {feature: gang, file: config/gpu-gang.yaml, plugins: [Coscheduling, PrioritySort], argsOf: Coscheduling}
- {feature: gpu, file: config/gpu.yaml, argsOf: GPUDevice}
- {feature: colocation, file: config/colocation.yaml, argsOf: Colocation}
{{- end -}}

{{- /*
berth.pluginSets merges the plugin sets of two profiles, in place. A plugin in both keeps the
later position, and NodeCandidates is last under multiPoint, because it uses the results of
all others.
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
{{- if and (eq $f.feature "gpu") (eq .name "GPUDevice") $root.Values.gpu.pool }}{{ $_ := set $own "pool" $root.Values.gpu.pool }}{{ end -}}
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
  resourceName: {{ include "berth.fullname" . }}
  retryPeriod: 500ms
profiles:
{{ toYaml (list $profile) }}
{{- end -}}
