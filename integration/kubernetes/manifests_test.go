package kubernetes

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/ackledger/ackledger/consumer"
)

const root = "../../"

// scaled is what is used of KEDA's ScaledObject (keda.sh/v1alpha1).
type scaled struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount int `json:"minReplicaCount"`
		MaxReplicaCount int `json:"maxReplicaCount"`
		CooldownPeriod  int `json:"cooldownPeriod"`
		Triggers        []struct {
			Type     string            `json:"type"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// manifests are all objects of docs/kubernetes, by kind and name, each decoded strictly: a field that Kubernetes does not know, or of
// another type, is an error, as a server with strict validation refuses it.
func manifests(t *testing.T) map[string]any {
	t.Helper()
	files, err := filepath.Glob(root + "docs/kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("docs/kubernetes: %v, %v", files, err)
	}
	kinds := map[string]func() any{
		"apps/v1 Deployment": func() any { return new(apps.Deployment) }, "policy/v1 PodDisruptionBudget": func() any { return new(policy.PodDisruptionBudget) },
		"batch/v1 Job": func() any { return new(batch.Job) }, "batch/v1 CronJob": func() any { return new(batch.CronJob) },
		"keda.sh/v1alpha1 ScaledObject": func() any { return new(scaled) },
	}
	found := map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range bytes.Split(text, []byte("\n---\n")) {
			var head struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
				Metadata   struct {
					Name string `json:"name"`
				} `json:"metadata"`
			}
			if err := yaml.Unmarshal(part, &head); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			kind, known := kinds[head.APIVersion+" "+head.Kind]
			if !known {
				t.Fatalf("%s has the unknown kind %s %s", file, head.APIVersion, head.Kind)
			}
			object := kind()
			if err := yaml.UnmarshalStrict(part, object); err != nil {
				t.Fatalf("%s: %s %s: %v", file, head.Kind, head.Metadata.Name, err)
			}
			found[head.Kind+" "+head.Metadata.Name] = object
		}
	}
	return found
}

// The worker's pod has the time that its drain takes, and is asked at the paths that consumer.Probes serves.
func TestDeployment(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	d := all["Deployment payments"].(*apps.Deployment)
	pod := d.Spec.Template.Spec
	const leaving = 5 * time.Second
	if got, want := time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second, consumer.DefaultDrain+leaving; got < want || got != consumer.DefaultGrace {
		t.Errorf("terminationGracePeriodSeconds is %s, a drain takes %s, Options.Grace is %s", got, want, consumer.DefaultGrace)
	}
	probes := consumer.Probes()
	c := pod.Containers[0]
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for name, want := range map[string]*core.Probe{"/readyz": c.ReadinessProbe, "/livez": c.LivenessProbe} {
		if want == nil || want.HTTPGet == nil || want.HTTPGet.Path != name || !ports[want.HTTPGet.Port.StrVal] {
			t.Errorf("the probe %s: %+v", name, want)
		}
		served := httptest.NewRecorder()
		if probes.ServeHTTP(served, httptest.NewRequestWithContext(t.Context(), http.MethodGet, name, nil)); served.Code != http.StatusOK {
			t.Errorf("consumer.Probes answers %d at %s", served.Code, name)
		}
	}
	for key, value := range d.Spec.Selector.MatchLabels {
		pdb := all["PodDisruptionBudget payments"].(*policy.PodDisruptionBudget)
		if d.Spec.Template.Labels[key] != value || pdb.Spec.Selector.MatchLabels[key] != value {
			t.Errorf("the label %s=%s is not everywhere", key, value)
		}
	}
	if held := c.Resources.Limits.Memory().Value(); held < 2*consumer.DefaultMaxHeldBytes {
		t.Errorf("the limit of memory is %d bytes, and what is in hand takes up to %d", held, consumer.DefaultMaxHeldBytes)
	}
}

// Each trigger names what KEDA's scalers require, and scales by what exists.
func TestScaledObjects(t *testing.T) {
	t.Parallel()
	required := map[string][]string{
		"kafka":         {"bootstrapServers", "consumerGroup", "topic", "lagThreshold"},
		"aws-sqs-queue": {"queueURL", "queueLength", "awsRegion"},
	}
	seen := 0
	for name, object := range manifests(t) {
		s, ok := object.(*scaled)
		if !ok {
			continue
		}
		if s.Spec.MinReplicaCount < 1 || s.Spec.MaxReplicaCount < s.Spec.MinReplicaCount || s.Spec.ScaleTargetRef.Name == "" {
			t.Errorf("%s: %+v", name, s.Spec)
		}
		for _, trigger := range s.Spec.Triggers {
			seen++
			if required[trigger.Type] == nil {
				t.Errorf("%s has the unknown trigger %q", name, trigger.Type)
			}
			for _, key := range required[trigger.Type] {
				if trigger.Metadata[key] == "" {
					t.Errorf("%s: trigger %s lacks %s", name, trigger.Type, key)
				}
			}
		}
	}
	if seen != len(required) {
		t.Errorf("%d triggers", seen)
	}
}

// Jobs end, and run nothing twice at once.
func TestJobs(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	job, cron := all["Job ackledger-migrate"].(*batch.Job), all["CronJob ackledger-doctor"].(*batch.CronJob)
	for name, pod := range map[string]core.PodSpec{"migrate": job.Spec.Template.Spec, "doctor": cron.Spec.JobTemplate.Spec.Template.Spec} {
		if pod.RestartPolicy != core.RestartPolicyNever || pod.Containers[0].Args[0] != name {
			t.Errorf("%s: restart %s, args %q", name, pod.RestartPolicy, pod.Containers[0].Args)
		}
	}
	if cron.Spec.ConcurrencyPolicy != batch.ForbidConcurrent {
		t.Errorf("the doctor's concurrencyPolicy is %s", cron.Spec.ConcurrencyPolicy)
	}
}
