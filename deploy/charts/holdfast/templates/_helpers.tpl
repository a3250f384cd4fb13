{{- define "holdfast.labels" -}}
app.kubernetes.io/name: holdfast
{{- end }}

{{- define "holdfast.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The driver's configuration file. On one node the resizer beside its driver reaches every volume. */}}
{{- define "holdfast.config" -}}
{{- $forOneNode := ternary (dict "expansion" "controller") (dict) .Values.oneNode -}}
{{- $config := merge (deepCopy .Values.config) $forOneNode -}}
{{- $names := keys ($config.pools | default (dict "default" dict)) | sortAlpha }}
{{- if and $config.defaultPool (not (has $config.defaultPool $names)) }}
{{- fail (printf "config.defaultPool: there is no such pool; there is %s" (join ", " $names)) }}
{{- end }}
{{- if and (not $config.defaultPool) (gt (len $names) 1) (not (has "default" $names)) }}
{{- fail (printf "config.defaultPool: with several pools (%s) none is the default by itself: set it to one of them" (join ", " $names)) }}
{{- end }}
{{- /* The kubelet makes a directory that a node lacks. No pool is made in it before its disk is mounted. */}}
{{- range $pool := ($config.pools | default dict) }}
{{- $place := coalesce (dig "directory" "" ($pool | default dict)) (dig "path" "" ($pool | default dict)) (dig "file" "" ($pool | default dict)) "" }}
{{- range $directory := $.Values.poolDirectories }}
{{- if and (hasPrefix (printf "%s/" $directory) (printf "%s/" $place)) (not (hasKey $pool "systemDisk")) }}
{{- $_ := set $pool "systemDisk" "refuse" }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $config }}
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
