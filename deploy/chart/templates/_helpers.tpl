{{- define "bartserve.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "bartserve.secret" -}}
{{- .Values.secret.existing | default (include "bartserve.name" .) -}}
{{- end }}

{{- define "bartserve.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bartserve.labels" -}}
{{ include "bartserve.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "bartserve.environment" -}}
- name: BARTSERVE_DATABASE_URL
  value: {{ printf "postgresql://%s@%s:%d/%s?%s" .Values.database.user (required "database.host: the name of your Postgres server" .Values.database.host) (int .Values.database.port) .Values.database.name .Values.database.parameters | trimSuffix "?" | quote }}
- name: BARTSERVE_DATABASE_PASSWORD_FILE
  value: /run/secrets/bartserve/database-password
{{- if .Values.redis.host }}
- name: BARTSERVE_REDIS_URL
  value: {{ printf "%s://%s:%d/0" (ternary "rediss" "redis" .Values.redis.tls) .Values.redis.host (int .Values.redis.port) | quote }}
- name: BARTSERVE_REDIS_PASSWORD_FILE
  value: /run/secrets/bartserve/redis-password
{{- end }}
{{- if .Values.ingress.enabled }}
- name: BARTSERVE_PUBLIC_URL
  value: {{ printf "%s://%s" (ternary "https" "http" (ne .Values.ingress.tlsSecret "")) .Values.ingress.host | quote }}
{{- end }}
- name: BARTSERVE_TRUSTED_PROXIES
  value: {{ .Values.trustedProxies | quote }}
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "bartserve.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false  # their variables would be taken for misspelt settings
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "bartserve.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: secret, mountPath: /run/secrets/bartserve, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  - {name: home, mountPath: /var/lib/bartserve}
{{- end }}

{{- define "bartserve.volumes" -}}
- name: secret
  secret: {secretName: {{ include "bartserve.secret" . }}, defaultMode: 0440}
- name: home
  emptyDir: {sizeLimit: 512Mi}
{{- end }}
