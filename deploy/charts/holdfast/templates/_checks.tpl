{{/* What a schema cannot say, or says only in regular expressions. Each check appends its sentence to found.problems. */}}

{{- define "holdfast.checks" -}}
{{- $root := .root }}
{{- $found := .found }}
{{- $bounds := $root.Files.Get "files/bounds.json" | fromJson }}
{{- include "holdfast.checkConfig" (dict "found" $found "bounds" $bounds "key" "config" "config" $root.Values.config) }}
{{- range $name, $group := $root.Values.nodeGroups }}
{{- include "holdfast.checkConfig" (dict "found" $found "bounds" $bounds "key" (printf "nodeGroups.%s.config" $name) "config" (dig "config" dict ($group | default dict))) }}
{{- end }}
{{- range $class := $root.Values.storageClasses }}
{{- range $parameter := list "undelete" "forgetNodeAfter" }}
{{- include "holdfast.checkDuration" (dict "found" $found "key" (printf "storageClasses: class %s: %s" $class.name $parameter) "value" (index ($class.parameters | default dict) $parameter) "bounds" $bounds.undelete) }}
{{- end }}
{{- end }}
{{- range $class := $root.Values.volumeAttributesClasses }}
{{- include "holdfast.checkDuration" (dict "found" $found "key" (printf "volumeAttributesClasses: class %s: undelete" $class.name) "value" (index ($class.parameters | default dict) "undelete") "bounds" $bounds.undelete) }}
{{- end }}
{{- end }}

{{/* dict "found" … "bounds" … "key" KEY "config" CONFIG: a configuration of the driver, and its sections for nodes. */}}
{{- define "holdfast.checkConfig" -}}
{{- $outer := . }}
{{- $config := .config | default dict }}
{{- $common := $config.pools | default (dict "default" dict) }}
{{- include "holdfast.checkSettings" (dict "found" .found "bounds" .bounds "key" .key "settings" $config "pools" $common) }}
{{- range $names, $settings := ($config.nodes | default dict) }}
{{- $own := $settings | default dict }}
{{- $key := printf "%s.nodes.%s" $outer.key $names }}
{{- include "holdfast.checkSettings" (dict "found" $outer.found "bounds" $outer.bounds "key" $key "settings" $own "pools" ($own.pools | default $common)) }}
{{- end }}
{{- end }}

{{/* dict … "settings" SETTINGS "pools" POOLS: what is true of some nodes, and the pools that they have. */}}
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
{{- range $name, $pool := (.settings.pools | default dict) }}
{{- include "holdfast.checkPool" (dict "found" $outer.found "bounds" $outer.bounds "key" (printf "%s.pools.%s" $outer.key $name) "name" $name "pool" ($pool | default dict)) }}
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
{{- range $place := list "directory" "device" "file" }}{{ if hasKey $pool $place }}{{ $places = append $places $place }}{{ end }}{{ end }}
{{- if gt (len $places) 1 }}
{{- include "holdfast.problem" (dict "found" .found "key" .key "text" (printf "set only one of %s" (join ", " $places))) }}
{{- end }}
{{- if and (hasKey $pool "size") (or (hasKey $pool "directory") (hasKey $pool "device")) }}
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
{{- if not (or (hasKey $pool "volumeGroup") (hasKey $pool "devices")) }}
{{- include "holdfast.problem" (dict "found" .found "key" .key "text" "needs a volumeGroup for its volumes, or devices to make one of") }}
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

{{/* A size in bytes, rounded up; what is larger than any disk is 2E. Its form was checked. */}}
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
