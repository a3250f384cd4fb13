{{- define "holdfast.labels" -}}
app.kubernetes.io/name: holdfast
{{- end }}

{{- define "holdfast.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The nodes of a group, if there is one: dict "Values" … "group" NAME; absent: the nodes of no group. */}}
{{- define "holdfast.nodeLabels" -}}
{{- if .group -}}
app.kubernetes.io/name: holdfast-group
app.kubernetes.io/component: {{ .group | quote }}
{{- else -}}
{{- include "holdfast.labels" . }}
{{- end }}
{{- end }}

{{- define "holdfast.groupName" -}}
holdfast{{ with .group }}-{{ . }}{{ end }}
{{- end }}

{{/* All drivers, of whatever group. */}}
{{- define "holdfast.driverSelector" -}}
{{- if .Values.nodeGroups -}}
matchExpressions:
  - key: app.kubernetes.io/name
    operator: In
    values: [holdfast, holdfast-group]
{{- else -}}
matchLabels:
  {{- include "holdfast.labels" . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Where the drivers of a group run, and those of none: never two on one node. */}}
{{- define "holdfast.affinity" -}}
{{- $affinity := deepCopy (.Values.affinity | default dict) }}
{{- if .Values.nodeGroups }}
{{- $values := list }}
{{- range $name, $group := .Values.nodeGroups }}
{{- if or (not $.group) (eq $name $.group) }}{{ $values = concat $values ($group.values | default (list $name)) }}{{ end }}
{{- end }}
{{- $rule := dict "key" .Values.nodeGroupLabel "operator" (ternary "In" "NotIn" (not (empty .group))) "values" $values }}
{{- $node := dig "nodeAffinity" dict $affinity }}
{{- $required := dig "requiredDuringSchedulingIgnoredDuringExecution" dict $node }}
{{- $terms := list }}
{{- range $term := (dig "nodeSelectorTerms" list $required | default (list dict)) }}
{{- $terms = append $terms (set $term "matchExpressions" (append (dig "matchExpressions" list $term) $rule)) }}
{{- end }}
{{- $_ := set $required "nodeSelectorTerms" $terms }}
{{- $_ := set $node "requiredDuringSchedulingIgnoredDuringExecution" $required }}
{{- $_ := set $affinity "nodeAffinity" $node }}
{{- end }}
{{- with $affinity }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* The driver's configuration file. On one node the resizer beside its driver reaches every volume. Whoever may make a pod
     may ask for an inline volume: there is a limit, unless another one is set. */}}
{{- define "holdfast.config" -}}
{{- $forOneNode := ternary (dict "expansion" "controller") (dict) .Values.oneNode -}}
{{- $forInline := ternary (dict "maxInlineSize" "10Gi") (dict) .Values.inlineVolumes -}}
{{- $group := ternary (get (.Values.nodeGroups | default dict) (.group | default "")) dict (not (empty .group)) }}
{{- $config := merge (deepCopy (ternary ($group.config | default dict) .Values.config (not (empty .group)))) $forOneNode $forInline -}}
{{- include "holdfast.poolSettings" (dict "Values" .Values "settings" $config) }}
{{- range $settings := ($config.nodes | default dict) }}
{{- include "holdfast.poolSettings" (dict "Values" $.Values "settings" ($settings | default dict)) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/* No pool is made on the system's disk, unless that is meant: the kubelet makes a directory that a node lacks, and its
     disk may be mounted later. */}}
{{- define "holdfast.poolSettings" -}}
{{- range $pool := (.settings.pools | default dict) }}
{{- $place := coalesce (dig "directory" "" ($pool | default dict)) (dig "path" "" ($pool | default dict)) (dig "file" "" ($pool | default dict)) "" }}
{{- range $directory := $.Values.poolDirectories }}
{{- if and (hasPrefix (printf "%s/" $directory) (printf "%s/" $place)) (not (hasKey $pool "systemDisk")) }}
{{- $_ := set $pool "systemDisk" "refuse" }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Every pool there is on any node, as a YAML list. */}}
{{- define "holdfast.allPools" -}}
{{- $configs := list .Values.config }}
{{- range $group := .Values.nodeGroups }}{{ $configs = append $configs ($group.config | default dict) }}{{ end }}
{{- $pools := list }}
{{- range $config := $configs }}
{{- range $settings := (append (values ($config.nodes | default dict)) $config) }}
{{- range $pool := (dig "pools" dict ($settings | default dict)) }}{{ $pools = append $pools ($pool | default dict) }}{{ end }}
{{- end }}
{{- end }}
{{- toYaml $pools }}
{{- end }}

{{/* What all sidecars have: dict "root" $ "sidecar" .Values.sidecars.x */}}
{{- define "holdfast.sidecar" -}}
image: {{ .sidecar.image }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
resources:
  {{- toYaml .root.Values.sidecars.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  # The driver's socket is root's.
  runAsUser: 0
  capabilities:
    drop: [ALL]
  seccompProfile:
    type: RuntimeDefault
volumeMounts:
  - name: socket
    mountPath: /csi
{{- end }}

{{/* "true" if there is a controller; otherwise empty. */}}
{{- define "holdfast.hasController" -}}
{{- if eq (toString .Values.controller.enabled) "auto" }}
{{- if not .Values.oneNode }}true{{ end }}
{{- else if .Values.controller.enabled }}true{{ end }}
{{- end }}

{{/* The account of the sidecars. */}}
{{- define "holdfast.sidecarAccount" -}}
{{ ternary "holdfast-controller" "holdfast" (not (empty (include "holdfast.hasController" .))) }}
{{- end }}

{{- define "holdfast.controllerLabels" -}}
app.kubernetes.io/name: holdfast-controller
{{- end }}

{{/* What everything in the controller's pod has: no rights on its node, and the socket. */}}
{{- define "holdfast.unprivileged" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  # The socket is its owner's alone.
  runAsUser: 65532
  runAsNonRoot: true
  capabilities:
    drop: [ALL]
  seccompProfile:
    type: RuntimeDefault
volumeMounts:
  - name: socket
    mountPath: /csi
{{- end }}

{{/* What the sidecars beside the controller have: dict "root" $ "sidecar" .Values.sidecars.x */}}
{{- define "holdfast.controllerSidecar" -}}
image: {{ .sidecar.image }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
resources:
  {{- toYaml .root.Values.controller.sidecarResources | nindent 2 }}
{{ include "holdfast.unprivileged" .root }}
{{- end }}

{{- define "holdfast.nodeName" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- end }}
