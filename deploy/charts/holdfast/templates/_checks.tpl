{{/* Checks that a schema cannot do, or does only by regular expressions. Each check appends its sentence to found.problems. */}}

{{- define "holdfast.checks" -}}
{{- $root := .root }}
{{- $found := .found }}
{{- $values := $root.Values }}
{{- $bounds := $root.Files.Get "files/bounds.json" | fromJson }}
{{- /* Each pool of any node: its settings, under its name. */}}
{{- $pools := dict }}
{{- include "holdfast.checkConfig" (dict "root" $root "found" $found "bounds" $bounds "pools" $pools "key" "config" "config" $values.config) }}
{{- range $name, $group := $values.nodeGroups }}
{{- include "holdfast.checkConfig" (dict "root" $root "found" $found "bounds" $bounds "pools" $pools "key" (printf "nodeGroups.%s.config" $name) "config" (dig "config" dict ($group | default dict))) }}
{{- end }}
{{- include "holdfast.checkInstallation" . }}
{{- include "holdfast.checkFiles" . }}
{{- include "holdfast.checkDisks" . }}
{{- include "holdfast.checkClasses" (dict "root" $root "found" $found "pools" $pools) }}
{{- range $class := $root.Values.storageClasses }}
{{- range $parameter := list "undelete" "forgetNodeAfter" }}
{{- include "holdfast.checkDuration" (dict "found" $found "key" (printf "storageClasses: class %s: %s" $class.name $parameter) "value" (index ($class.parameters | default dict) $parameter) "bounds" $bounds.undelete) }}
{{- end }}
{{- end }}
{{- range $class := $root.Values.volumeAttributesClasses }}
{{- include "holdfast.checkDuration" (dict "found" $found "key" (printf "volumeAttributesClasses: class %s: undelete" $class.name) "value" (index ($class.parameters | default dict) "undelete") "bounds" $bounds.undelete) }}
{{- end }}
{{- end }}

{{/* dict "root" … "found" …: how the drivers run, and on which nodes. */}}
{{- define "holdfast.checkInstallation" -}}
{{- $found := .found }}
{{- $values := .root.Values }}
{{- $kube := .root.Capabilities.KubeVersion.Version }}
{{- $hasController := include "holdfast.hasController" .root }}
{{- if and $values.moveBetweenNodes (not $hasController) }}
{{- include "holdfast.problem" (dict "found" $found "key" "moveBetweenNodes" "text" "needs the controller, which introduces the nodes to each other") }}
{{- end }}
{{- if and $values.oneNode $hasController }}
{{- include "holdfast.problem" (dict "found" $found "key" "oneNode" "text" "set only one of oneNode and controller.enabled: with oneNode there is no controller") }}
{{- end }}
{{- if and $hasController (semverCompare "<1.32-0" $kube) }}
{{- include "holdfast.problem" (dict "found" $found "key" "controller.enabled" "text" (printf "the controller needs Kubernetes 1.32 or newer, and this is %s: set oneNode: true if there is one node, otherwise controller.enabled: false" $kube)) }}
{{- end }}
{{- if and $values.snapshotClasses.groups (not $values.oneNode) (not $hasController) }}
{{- include "holdfast.problem" (dict "found" $found "key" "snapshotClasses.groups" "text" "needs the controller or oneNode: group snapshots would wait forever") }}
{{- end }}
{{- if and $values.snapshotClasses.enabled (not $values.sidecars.snapshotter.enabled) }}
{{- include "holdfast.problem" (dict "found" $found "key" "snapshotClasses.enabled" "text" "needs sidecars.snapshotter.enabled: snapshots would wait forever") }}
{{- end }}
{{- if $values.volumeAttributesClasses }}
{{- if not (or $values.oneNode $hasController) }}
{{- include "holdfast.problem" (dict "found" $found "key" "volumeAttributesClasses" "text" "need the controller or oneNode: changes of volumes would go to the wrong node") }}
{{- end }}
{{- if semverCompare "<1.34-0" $kube }}
{{- include "holdfast.problem" (dict "found" $found "key" "volumeAttributesClasses" "text" (printf "need Kubernetes 1.34 or newer; this is %s" $kube)) }}
{{- end }}
{{- end }}
{{- range $key, $directory := dict "kubeletDir" $values.kubeletDir "dataDir" $values.dataDir }}
{{- include "holdfast.checkDirectory" (dict "found" $found "key" $key "path" $directory) }}
{{- end }}
{{- range $key, $directories := dict "poolDirectories" $values.poolDirectories "keyDirectories" $values.keyDirectories }}
{{- range $directory := $directories }}
{{- include "holdfast.checkDirectory" (dict "found" $found "key" $key "path" $directory) }}
{{- end }}
{{- end }}
{{- if hasPrefix (printf "%s/" $values.kubeletDir) (printf "%s/" $values.dataDir) }}
{{- include "holdfast.problem" (dict "found" $found "key" "dataDir" "text" (printf "%s lies in kubeletDir: the kubelet cleans up there" $values.dataDir)) }}
{{- end }}
{{- if eq (int $values.monitoring.port) 0 }}
{{- range $part := list "podMonitor" "alerts" }}
{{- if dig $part "enabled" false $values.monitoring }}
{{- include "holdfast.problem" (dict "found" $found "key" (printf "monitoring.%s.enabled" $part) "text" "needs a monitoring.port other than 0: without it there are no metrics") }}
{{- end }}
{{- end }}
{{- end }}
{{- if regexMatch ":[^/]+$" $values.image.repository }}
{{- include "holdfast.problem" (dict "found" $found "key" "image.repository" "text" (printf "'%s' has a tag in it: write the tag into image.tag" $values.image.repository)) }}
{{- end }}
{{- range $key, $resources := dict "resources" $values.resources "sidecars.resources" $values.sidecars.resources "controller.resources" $values.controller.resources "controller.sidecarResources" $values.controller.sidecarResources }}
{{- range $part := list "requests" "limits" }}
{{- range $name, $quantity := (index ($resources | default dict) $part | default dict) }}
{{- if not (regexMatch "^([0-9]+([.][0-9]*)?|[.][0-9]+)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?[0-9]+)?$" (include "holdfast.written" $quantity)) }}
{{- include "holdfast.problem" (dict "found" $found "key" (printf "%s.%s.%s" $key $part $name) "text" (printf "'%v' is not a quantity: write a number with a unit, such as 500m or 1Gi" $quantity)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if and $values.nodeGroups $values.oneNode }}
{{- include "holdfast.problem" (dict "found" $found "key" "nodeGroups" "text" "set only one of nodeGroups and oneNode: there is one node only") }}
{{- end }}
{{- $all := list }}
{{- range $name, $group := $values.nodeGroups }}
{{- range $value := (dig "values" (list $name) ($group | default dict) | uniq) }}
{{- if has $value $all }}
{{- include "holdfast.problem" (dict "found" $found "key" (printf "nodeGroups.%s.values" $name) "text" (printf "%s belongs to another group, too: a node has one driver" $value)) }}
{{- end }}
{{- $all = append $all $value }}
{{- end }}
{{- end }}
{{- end }}

{{/* dict "root" … "found" …: the driver for volumes on NFS. */}}
{{- define "holdfast.checkFiles" -}}
{{- $found := .found }}
{{- $values := .root.Values }}
{{- $config := $values.files.config | default dict }}
{{- if and $config (not $values.files.enabled) }}
{{- include "holdfast.problem" (dict "found" $found "key" "files.config" "text" "needs files.enabled: true, otherwise nothing reads it") }}
{{- end }}
{{- if $values.files.enabled }}
{{- $pools := dig "pools" dict $config | default dict }}
{{- $hasPools := kindIs "map" (get $config "pools") }}
{{- if not $hasPools }}
{{- include "holdfast.problem" (dict "found" $found "key" "files.config.pools" "text" "needs a pool, such as {files: {kind: nfs, server: nas.example.com, share: /export/kubernetes}}; or say {} if PersistentVolumes name all volumes") }}
{{- end }}
{{- if ne "required" (dig "attach" "required" $config) }}
{{- include "holdfast.problem" (dict "found" $found "key" "files.config.attach" "text" "must be required, as the CSIDriver object says") }}
{{- end }}
{{- range $name, $pool := $pools }}
{{- $kind := dig "kind" "image" ($pool | default dict) }}
{{- if not (has $kind (list "nfs" "exec")) }}
{{- include "holdfast.problem" (dict "found" $found "key" (printf "files.config.pools.%s" $name) "text" (printf "kind %s lies on one node: move it to config.pools" $kind)) }}
{{- end }}
{{- end }}
{{- $names := list }}
{{- range $class := $values.storageClasses }}{{ $names = append $names $class.name }}{{ end }}
{{- range $class := $values.files.storageClasses }}
{{- $key := printf "files.storageClasses: class %s" $class.name }}
{{- if has $class.name $names }}
{{- include "holdfast.problem" (dict "found" $found "key" $key "text" "there are two classes of this name") }}
{{- end }}
{{- $names = append $names $class.name }}
{{- $pool := dig "parameters" "pool" "" $class }}
{{- if and $pool $hasPools (not (hasKey $pools $pool)) }}
{{- include "holdfast.problem" (dict "found" $found "key" $key "text" (printf "there is no pool %s in files.config.pools" $pool)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* dict "root" … "found" …: the driver for disks of a network and of a cloud. */}}
{{- define "holdfast.checkDisks" -}}
{{- $found := .found }}
{{- $values := .root.Values }}
{{- $config := $values.disks.config | default dict }}
{{- if and $config (not $values.disks.enabled) }}
{{- include "holdfast.problem" (dict "found" $found "key" "disks.config" "text" "needs disks.enabled: true, otherwise nothing reads it") }}
{{- end }}
{{- if $values.disks.enabled }}
{{- $pools := dig "pools" dict $config | default dict }}
{{- if ne "required" (dig "attach" "required" $config) }}
{{- include "holdfast.problem" (dict "found" $found "key" "disks.config.attach" "text" "must be required, as the CSIDriver object says") }}
{{- end }}
{{- range $name, $pool := $pools }}
{{- $kind := dig "kind" "image" ($pool | default dict) }}
{{- if eq $kind "nfs" }}
{{- include "holdfast.problem" (dict "found" $found "key" (printf "disks.config.pools.%s" $name) "text" "kind nfs is of files: move it to files.config.pools") }}
{{- else if not (has $kind (list "aws-ebs" "gce-pd")) }}
{{- include "holdfast.problem" (dict "found" $found "key" (printf "disks.config.pools.%s" $name) "text" (printf "kind %s lies on one node: move it to config.pools" $kind)) }}
{{- end }}
{{- end }}
{{- $kinds := list }}
{{- range $pool := $pools }}{{ $kinds = append $kinds (dig "kind" "" ($pool | default dict)) }}{{ end }}
{{- if and (has "aws-ebs" $kinds) (has "gce-pd" $kinds) }}
{{- include "holdfast.problem" (dict "found" $found "key" "disks.config.pools" "text" "has pools of two clouds (aws-ebs, gce-pd), and a node is in one: leave one out") }}
{{- end }}
{{- if and $values.disks.storageClasses (empty $pools) }}
{{- include "holdfast.problem" (dict "found" $found "key" "disks.storageClasses" "text" "need a pool in disks.config.pools, such as {ebs: {kind: aws-ebs, poolId: prod-eu}}") }}
{{- end }}
{{- $names := list "holdfast-disks" }}
{{- range $class := concat $values.storageClasses (ternary $values.files.storageClasses list $values.files.enabled) }}{{ $names = append $names $class.name }}{{ end }}
{{- range $class := $values.disks.storageClasses }}
{{- $key := printf "disks.storageClasses: class %s" $class.name }}
{{- if has $class.name $names }}
{{- include "holdfast.problem" (dict "found" $found "key" $key "text" "there are two classes of this name") }}
{{- end }}
{{- $names = append $names $class.name }}
{{- $pool := dig "parameters" "pool" "" $class }}
{{- if and $pool (not (empty $pools)) (not (hasKey $pools $pool)) }}
{{- include "holdfast.problem" (dict "found" $found "key" $key "text" (printf "there is no pool %s in disks.config.pools" $pool)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* dict "found" … "key" KEY "path" PATH: a directory of the node. */}}
{{- define "holdfast.checkDirectory" -}}
{{- if or (not (regexMatch "^(/[^/\\s:]+)+$" .path)) (regexMatch "/[.][.]?(/|$)" .path) }}
{{- include "holdfast.problem" (dict "found" .found "key" .key "text" (printf "'%s' must be an absolute path without . and .., and without a slash at its end" .path)) }}
{{- end }}
{{- end }}

{{/* dict "root" … "found" … "pools" {NAME: [SETTINGS…]}: the classes, and the pools that they name. */}}
{{- define "holdfast.checkClasses" -}}
{{- $found := .found }}
{{- $pools := .pools }}
{{- $values := .root.Values }}
{{- $every := list }}
{{- range $some := $pools }}{{ $every = concat $every $some }}{{ end }}
{{- $names := list }}
{{- $defaults := list }}
{{- range $class := $values.storageClasses }}
{{- $key := printf "storageClasses: class %s" $class.name }}
{{- $parameters := $class.parameters | default dict }}
{{- if has $class.name $names }}
{{- include "holdfast.problem" (dict "found" $found "key" $key "text" "there are two classes of this name") }}
{{- end }}
{{- $names = append $names $class.name }}
{{- if $class.default }}{{ $defaults = append $defaults $class.name }}{{ end }}
{{- if and $parameters.pool $parameters.poolSelector }}
{{- include "holdfast.problem" (dict "found" $found "key" $key "text" "set only one of pool and poolSelector") }}
{{- end }}
{{- $its := $every }}
{{- with $parameters.pool }}
{{- if hasKey $pools . }}
{{- $its = index $pools . }}
{{- else }}
{{- /* Each disk of a section with match is a separate pool: SECTION-NAME. */}}
{{- $pool := . }}
{{- $isOfSection := false }}
{{- range $section, $some := $pools }}
{{- range $some }}
{{- if and .match (eq (.kind | default "image") "disk") (hasPrefix (printf "%s-" $section) $pool) }}
{{- $isOfSection = true }}
{{- $its = $some }}
{{- end }}
{{- end }}
{{- end }}
{{- if not $isOfSection }}
{{- include "holdfast.problem" (dict "found" $found "key" $key "text" (printf "there is no pool '%s'; there is %s" . (keys $pools | sortAlpha | join ", "))) }}
{{- end }}
{{- end }}
{{- end }}
{{- $kinds := list }}
{{- $hasKey := false }}
{{- range $its }}
{{- $kinds = append $kinds (.kind | default "image") | uniq }}
{{- if .encryption }}{{ $hasKey = true }}{{ end }}
{{- end }}
{{- $encrypts := eq (toString (index $parameters "encryption")) "luks2" }}
{{- if $encrypts }}
{{- if deepEqual $kinds (list "directory") }}
{{- include "holdfast.problem" (dict "found" $found "key" (printf "%s: encryption" $key) "text" "pools of directories cannot encrypt: use a pool of another kind") }}
{{- else if not (or $hasKey (index $parameters "csi.storage.k8s.io/provisioner-secret-name")) }}
{{- include "holdfast.problem" (dict "found" $found "key" (printf "%s: encryption" $key) "text" "needs a key: name a Secret (csi.storage.k8s.io/provisioner-secret-name, node-stage-secret-name and both namespaces), or give the pool a keyFile") }}
{{- end }}
{{- end }}
{{- range $call := list "provisioner" "node-stage" "node-expand" }}
{{- $name := index $parameters (printf "csi.storage.k8s.io/%s-secret-name" $call) }}
{{- $namespace := index $parameters (printf "csi.storage.k8s.io/%s-secret-namespace" $call) }}
{{- if ne (empty $name) (empty $namespace) }}
{{- include "holdfast.problem" (dict "found" $found "key" $key "text" (printf "set both csi.storage.k8s.io/%s-secret-name and csi.storage.k8s.io/%s-secret-namespace" $call $call)) }}
{{- end }}
{{- end }}
{{- $made := index $parameters "csi.storage.k8s.io/provisioner-secret-name" }}
{{- $staged := index $parameters "csi.storage.k8s.io/node-stage-secret-name" }}
{{- if and $encrypts (ne (toString $made) (toString $staged)) }}
{{- include "holdfast.problem" (dict "found" $found "key" $key "text" "provisioner-secret-name and node-stage-secret-name must name the same Secret: a volume is opened with the key that it was made with") }}
{{- end }}
{{- range $parameter := list "layout" "wipe" }}
{{- $fitting := ternary (list "lvm") (list "lvm" "disk") (eq $parameter "layout") }}
{{- $fits := false }}
{{- range $kinds }}{{ if has . $fitting }}{{ $fits = true }}{{ end }}{{ end }}
{{- if and (hasKey $parameters $parameter) (not $fits) }}
{{- include "holdfast.problem" (dict "found" $found "key" (printf "%s: %s" $key $parameter) "text" (printf "needs a pool of the kind %s" (join " or " $fitting))) }}
{{- end }}
{{- end }}
{{- end }}
{{- if gt (len $defaults) 1 }}
{{- include "holdfast.problem" (dict "found" $found "key" "storageClasses" "text" (printf "only one class can be the default, and these are: %s" (join ", " $defaults))) }}
{{- end }}
{{- end }}

{{/* dict "root" … "found" … "bounds" … "pools" {} "key" KEY "config" CONFIG: a configuration of the driver, and its sections for nodes. */}}
{{- define "holdfast.checkConfig" -}}
{{- $outer := . }}
{{- $config := .config | default dict }}
{{- $common := $config.pools | default (dict "default" dict) }}
{{- $context := dict "root" .root "found" .found "bounds" .bounds "all" .pools }}
{{- include "holdfast.checkSettings" (merge (dict "key" .key "settings" $config "pools" $common) $context) }}
{{- $patterns := keys ($config.nodes | default dict) | sortAlpha }}
{{- range $names := $patterns }}
{{- $own := index $config.nodes $names | default dict }}
{{- $key := printf "%s.nodes.%s" $outer.key $names }}
{{- include "holdfast.checkSettings" (merge (dict "key" $key "settings" $own "pools" ($own.pools | default $common)) $context) }}
{{- /* Every node of the narrower pattern is one of the wider, and would not start. */}}
{{- range $wide := $patterns }}
{{- if and (ne $names $wide) (contains "*" $names) (regexMatch (printf "^%s$" ($wide | replace "." "[.]" | replace "*" ".*")) $names) }}
{{- include "holdfast.problem" (dict "found" $outer.found "key" $key "text" (printf "every such node also fits '%s', and one node cannot have two sections: change one of the patterns" $wide)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* dict … "settings" SETTINGS "pools" POOLS: the settings of some nodes, and their pools. */}}
{{- define "holdfast.checkSettings" -}}
{{- $outer := . }}
{{- $names := keys .pools | sortAlpha }}
{{- with .settings.defaultPool }}
{{- if not (has . $names) }}
{{- include "holdfast.problem" (dict "found" $outer.found "key" (printf "%s.defaultPool" $outer.key) "text" (printf "there is no pool '%s'; there is %s" . (join ", " $names))) }}
{{- end }}
{{- else }}
{{- if and (gt (len $names) 1) (not (has "default" $names)) (or .settings.pools (eq .key "config")) }}
{{- include "holdfast.problem" (dict "found" .found "key" (printf "%s.defaultPool" .key) "text" (printf "set it to one of the pools (%s), because none of them is called default" (join ", " $names))) }}
{{- end }}
{{- end }}
{{- include "holdfast.checkSize" (dict "found" .found "key" (printf "%s.maxInlineSize" .key) "value" .settings.maxInlineSize "bounds" .bounds.inlineSize) }}
{{- range $name, $pool := .pools }}
{{- $_ := set $outer.all $name (append (index $outer.all $name | default list) ($pool | default dict)) }}
{{- end }}
{{- $taken := dict }}
{{- range $name, $pool := (.settings.pools | default dict) }}
{{- $settings := $pool | default dict }}
{{- $key := printf "%s.pools.%s" $outer.key $name }}
{{- include "holdfast.checkPool" (dict "found" $outer.found "bounds" $outer.bounds "key" $key "name" $name "pool" $settings) }}
{{- $places := compact (concat (list ($settings.device | default "") ($settings.directory | default "") ($settings.path | default "") ($settings.file | default "")) ($settings.devices | default list)) }}
{{- range $place := $places }}
{{- if hasKey $taken $place }}
{{- include "holdfast.problem" (dict "found" $outer.found "key" $key "text" (printf "pool '%s' is already at %s: give each pool its own place" (index $taken $place) $place)) }}
{{- end }}
{{- $_ := set $taken $place $name }}
{{- end }}
{{- range $place := compact (list ($settings.directory | default "") ($settings.path | default "") ($settings.file | default "")) }}
{{- $isSeen := hasPrefix (printf "%s/" $outer.root.Values.dataDir) $place }}
{{- range $directory := $outer.root.Values.poolDirectories }}{{ if hasPrefix (printf "%s/" $directory) (printf "%s/" $place) }}{{ $isSeen = true }}{{ end }}{{ end }}
{{- if not $isSeen }}
{{- include "holdfast.problem" (dict "found" $outer.found "key" $key "text" (printf "the driver's container does not see %s: add it, or a directory above it, to poolDirectories" $place)) }}
{{- end }}
{{- end }}
{{- with $file := dig "encryption" "keyFile" "" $settings }}
{{- $isSeen := hasPrefix (printf "%s/" $outer.root.Values.dataDir) $file }}
{{- range $directory := concat ($outer.root.Values.keyDirectories | default list) ($outer.root.Values.poolDirectories | default list) }}{{ if hasPrefix (printf "%s/" $directory) $file }}{{ $isSeen = true }}{{ end }}{{ end }}
{{- if not $isSeen }}
{{- include "holdfast.problem" (dict "found" $outer.found "key" (printf "%s.encryption.keyFile" $key) "text" (printf "the driver's container does not see %s: add its directory to keyDirectories" $file)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* dict … "key" KEY "name" NAME "pool" POOL */}}
{{- define "holdfast.checkPool" -}}
{{- $outer := . }}
{{- $pool := .pool }}
{{- $kind := $pool.kind | default "image" }}
{{- $count := len .found.problems }}
{{- include "holdfast.checkSize" (dict "found" .found "key" (printf "%s.size" .key) "value" $pool.size "bounds" .bounds.fileSize) }}
{{- include "holdfast.checkSize" (dict "found" .found "key" (printf "%s.reserve" .key) "value" $pool.reserve "bounds" .bounds.reserve) }}
{{- with $pool.thinPool }}
{{- include "holdfast.checkSize" (dict "found" $outer.found "key" (printf "%s.thinPool.size" $outer.key) "value" .size "bounds" $outer.bounds.fileSize) }}
{{- include "holdfast.checkSize" (dict "found" $outer.found "key" (printf "%s.thinPool.metadata" $outer.key) "value" .metadata "bounds" $outer.bounds.thinMetadata) }}
{{- end }}
{{- range $bound := list "minimum" "maximum" }}
{{- include "holdfast.checkSize" (dict "found" $outer.found "key" (printf "%s.match.size.%s" $outer.key $bound) "value" (dig "match" "size" $bound nil $pool) "bounds" $outer.bounds.reserve) }}
{{- end }}
{{- include "holdfast.checkDuration" (dict "found" .found "key" (printf "%s.undelete" .key) "value" $pool.undelete "bounds" .bounds.undelete) }}
{{- include "holdfast.checkDuration" (dict "found" .found "key" (printf "%s.sickAfter" .key) "value" $pool.sickAfter "bounds" .bounds.sickAfter) }}
{{- if and $pool.size $pool.reserve (eq $count (len .found.problems)) }}
{{- if ge (include "holdfast.bytes" $pool.reserve | int64) (include "holdfast.bytes" $pool.size | int64) }}
{{- include "holdfast.problem" (dict "found" .found "key" (printf "%s.reserve" .key) "text" (printf "must be less than the size of the pool, %v" $pool.size)) }}
{{- end }}
{{- end }}
{{- if eq $kind "image" }}
{{- $places := list }}
{{- range $place := list "directory" "device" "file" "match" }}{{ if hasKey $pool $place }}{{ $places = append $places $place }}{{ end }}{{ end }}
{{- if gt (len $places) 1 }}
{{- include "holdfast.problem" (dict "found" .found "key" .key "text" (printf "set only one of %s" (join ", " $places))) }}
{{- end }}
{{- if and (hasKey $pool "size") (or (hasKey $pool "directory") (hasKey $pool "device") (hasKey $pool "match")) }}
{{- include "holdfast.problem" (dict "found" .found "key" (printf "%s.size" .key) "text" "only a backing file has a size; a directory or a device has the size of its disk") }}
{{- end }}
{{- if and (hasKey $pool "systemDisk") (not (hasKey $pool "directory")) (not (hasKey $pool "file")) }}
{{- include "holdfast.problem" (dict "found" .found "key" (printf "%s.systemDisk" .key) "text" "needs a directory or a file: name one, or leave the key out") }}
{{- end }}
{{- else if eq $kind "directory" }}
{{- if not (hasKey $pool "path") }}
{{- include "holdfast.problem" (dict "found" .found "key" .key "text" "needs a path: the directory for its volumes") }}
{{- end }}
{{- else if eq $kind "lvm" }}
{{- if and (hasKey $pool "devices") (hasKey $pool "match") }}
{{- include "holdfast.problem" (dict "found" .found "key" (printf "%s.match" .key) "text" "set only one of devices, match") }}
{{- end }}
{{- if not (or (hasKey $pool "volumeGroup") (hasKey $pool "devices") (hasKey $pool "match")) }}
{{- include "holdfast.problem" (dict "found" .found "key" .key "text" "needs a volumeGroup for its volumes, or devices or a match to make one of") }}
{{- end }}
{{- if and (hasKey $pool "wipe") (hasKey $pool "thinPool") }}
{{- include "holdfast.problem" (dict "found" .found "key" (printf "%s.wipe" .key) "text" "cannot be set with a thinPool: blocks of thin volumes that were never written are zeros") }}
{{- end }}
{{- if and (hasKey $pool "trim") (not (hasKey $pool "thinPool")) }}
{{- include "holdfast.problem" (dict "found" .found "key" (printf "%s.trim" .key) "text" "needs a thinPool: other volumes keep their space") }}
{{- end }}
{{- else }}
{{- if not (or (hasKey $pool "device") (hasKey $pool "match")) }}
{{- include "holdfast.problem" (dict "found" .found "key" .key "text" "needs a device, the disk that becomes its volume; or match, for all disks of one sort") }}
{{- end }}
{{- if and (hasKey $pool "device") (hasKey $pool "match") }}
{{- include "holdfast.problem" (dict "found" .found "key" (printf "%s.match" .key) "text" "set only one of device, match") }}
{{- end }}
{{- if and (hasKey $pool "adopt") (hasKey $pool "match") }}
{{- include "holdfast.problem" (dict "found" .found "key" (printf "%s.adopt" .key) "text" "needs a device: with match it is not known which disk is meant") }}
{{- end }}
{{- end }}
{{- end }}

{{/* dict "found" … "key" KEY "text" TEXT */}}
{{- define "holdfast.problem" -}}
{{- $_ := set .found "problems" (append .found.problems (printf "%s: %s" .key .text)) }}
{{- end }}

{{/* A number, as it was written. */}}
{{- define "holdfast.written" -}}
{{- if kindIs "string" . }}{{ . }}{{ else if and (kindIs "float64" .) (eq (floor .) .) (lt (float64 .) 9e18) }}{{ printf "%d" (int64 .) }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{/* dict "found" … "key" KEY "value" SIZE "bounds" {minimum, minimumBytes, maximum, maximumBytes} */}}
{{- define "holdfast.checkSize" -}}
{{- if not (kindIs "invalid" .value) }}
{{- $text := include "holdfast.written" .value }}
{{- if not (regexMatch "^([0-9]{1,19}([.][0-9]{0,19})?|[.][0-9]{1,19})(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E|m|[eE][+-]?[0-9]{1,2})?$" $text) }}
{{- $hint := "" }}
{{- if regexMatch "^[0-9.]+ *[kKmMgGtTpPeE]i?[bB]?$" $text }}
{{- $letter := regexFind "[kKmMgGtTpPeE]" $text | upper }}
{{- $binary := ternary "i" "" (regexMatch "i[bB]?$" $text) }}
{{- $hint = printf " (did you mean %s%s%s?)" (regexFind "^[0-9.]+" $text) (ternary "k" $letter (and (eq $letter "K") (eq $binary ""))) $binary }}
{{- end }}
{{- include "holdfast.problem" (dict "found" .found "key" .key "text" (printf "'%s' is not a size%s: write a number with a unit, such as 10Gi or 500M" $text $hint)) }}
{{- else }}
{{- $bytes := include "holdfast.bytes" .value | int64 }}
{{- if lt $bytes (int64 .bounds.minimumBytes) }}
{{- include "holdfast.problem" (dict "found" .found "key" .key "text" (printf "must be at least %s, not '%s'" .bounds.minimum $text)) }}
{{- else if gt $bytes (int64 .bounds.maximumBytes) }}
{{- include "holdfast.problem" (dict "found" .found "key" .key "text" (printf "must be at most %s, not '%s'" .bounds.maximum $text)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* A size in bytes, rounded up; a size larger than any disk is 2E. Its form was checked. */}}
{{- define "holdfast.bytes" -}}
{{- $text := include "holdfast.written" . }}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "P" 1000000000000000 "E" 1000000000000000000 "m" 0.001 }}
{{- $units = merge $units (dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976) }}
{{- $number := regexFind "^[0-9.]+" $text }}
{{- $suffix := trimPrefix $number $text }}
{{- $approximately := 0.0 }}
{{- if hasKey $units $suffix }}
{{- $approximately = mulf (float64 $number) (get $units $suffix | float64) }}
{{- else }}
{{- $approximately = float64 $text }}
{{- end }}
{{- if gt $approximately 2e18 -}}
2000000000000000000
{{- else if and (regexMatch "^[0-9]+$" $number) (hasKey $units $suffix) (ne $suffix "m") -}}
{{ mul (int64 $number) (get $units $suffix | int64) }}
{{- else -}}
{{ ceil $approximately | int64 }}
{{- end }}
{{- end }}

{{/* dict "found" … "key" KEY "value" DURATION "bounds" {minimum, minimumSeconds, maximum, maximumSeconds} */}}
{{- define "holdfast.checkDuration" -}}
{{- if not (kindIs "invalid" .value) }}
{{- $text := include "holdfast.written" .value }}
{{- if not (regexMatch "^([0-9]{1,9}[smhd]|0)$" $text) }}
{{- include "holdfast.problem" (dict "found" .found "key" .key "text" (printf "'%s' is not a duration: write a whole number with s, m, h or d, such as 24h" $text)) }}
{{- else }}
{{- $factors := dict "s" 1 "m" 60 "h" 3600 "d" 86400 "" 1 }}
{{- $seconds := mul (regexFind "^[0-9]+" $text | int64) (get $factors (regexFind "[smhd]$" $text) | int64) }}
{{- if or (lt $seconds (int64 .bounds.minimumSeconds)) (gt $seconds (int64 .bounds.maximumSeconds)) }}
{{- include "holdfast.problem" (dict "found" .found "key" .key "text" (printf "must be %s to %s, not '%s'" .bounds.minimum .bounds.maximum $text)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
