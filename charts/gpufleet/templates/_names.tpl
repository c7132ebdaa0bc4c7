{{/* Labels of every object. */}}
{{- define "gpufleet.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: gpufleet
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: gpufleet
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels by which Services and workloads know their pods: (list . "agent"). */}}
{{- define "gpufleet.selector" -}}
app.kubernetes.io/name: gpufleet
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The image by digest, else by tag. */}}
{{- define "gpufleet.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ printf "%s@%s" $image.repository $image.digest }}
{{- else -}}
{{ printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) }}
{{- end -}}
{{- end }}

{{/* The label of the image's machines; none where the image is an index for several. */}}
{{- define "gpufleet.architecture" -}}
{{- if eq (len .Values.image.architectures) 1 -}}
kubernetes.io/arch: {{ first .Values.image.architectures }}
{{- end -}}
{{- end }}

{{/* The Prometheus of a component and its cluster, as arguments: (dict "name" "web" "values" .Values.web). */}}
{{- define "gpufleet.prometheusArguments" -}}
{{- if .values.prometheusUrl }}
- {{ printf "--prometheus=%s" .values.prometheusUrl | quote }}
{{- with .values.prometheusCluster }}
- {{ printf "--prometheus-cluster=%s" . | quote }}
{{- end }}
{{- else if .values.prometheusCluster }}
{{- fail (printf "%s.prometheusCluster=%s: no Prometheus is asked without %s.prometheusUrl" .name .values.prometheusCluster .name) }}
{{- end }}
{{- end }}

{{/* What every container of Pod Security `restricted` says, and what the agent keeps of it too. */}}
{{- define "gpufleet.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The pod's part of `restricted`; the user is the image's. */}}
{{- define "gpufleet.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Whether RuntimeClass shall be made: auto makes it where nobody else has one of its name. */}}
{{- define "gpufleet.makesRuntimeClass" -}}
{{- $there := lookup "node.k8s.io/v1" "RuntimeClass" "" .Values.runtimeClass.name -}}
{{- $owner := dig "metadata" "annotations" "meta.helm.sh/release-name" "" (default (dict) $there) -}}
{{- $namespace := dig "metadata" "annotations" "meta.helm.sh/release-namespace" "" (default (dict) $there) -}}
{{- $ours := and (eq $owner .Release.Name) (eq $namespace .Release.Namespace) -}}
{{- if or (eq .Values.runtimeClass.create "always") (and (eq .Values.runtimeClass.create "auto") (or (not $there) $ours)) -}}
true
{{- end -}}
{{- end }}

{{/* What HTTPS adds to the probes of a pod, to its arguments, its mounts and its volumes. */}}
{{- define "gpufleet.probeScheme" -}}
{{- if .Values.metrics.tls.secretName }}, scheme: HTTPS{{ end }}
{{- end }}
{{- define "gpufleet.metricsCertificateArgs" -}}
{{- if .Values.metrics.tls.secretName -}}
- --metrics-certificate=/etc/gpufleet/metrics-certificate/tls.crt
- --metrics-key=/etc/gpufleet/metrics-certificate/tls.key
{{- end }}
{{- end }}
{{- define "gpufleet.metricsCertificateMount" -}}
{{- if .Values.metrics.tls.secretName -}}
- {name: metrics-certificate, mountPath: /etc/gpufleet/metrics-certificate, readOnly: true}
{{- end }}
{{- end }}
{{- define "gpufleet.metricsCertificateVolume" -}}
{{- with .Values.metrics.tls.secretName -}}
- name: metrics-certificate
  # For its user and group alone.
  secret: {secretName: {{ . }}, defaultMode: 0440, items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]}
{{- end }}
{{- end }}

{{/* The ConfigMap with the sharing configs; empty where there is none. */}}
{{- define "gpufleet.sharingConfigMap" -}}
{{- if .Values.agent.sharing.existingConfigMap -}}
{{ .Values.agent.sharing.existingConfigMap }}
{{- else if .Values.agent.sharing.configs -}}
gpufleet-sharing
{{- end -}}
{{- end }}
