// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// prometheus is a running Prometheus with the rules of manifests/monitoring.
type prometheus struct {
	address string
	targets string
}

// tool returns the path of a program of Debian's package prometheus, and skips the test
// without it: it is no Go module that could be pinned and built.
func tool(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Skipf("NOT TESTED: %v: apt-get install prometheus", err)
	}
	return path
}

// startPrometheus starts one that scrapes and evaluates every second. The rules are those
// that are shipped but for how long something has to last, which is seconds here.
func startPrometheus(tb testing.TB, token string) *prometheus {
	tb.Helper()
	dir := tb.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			tb.Fatal(err)
		}
		return path
	}
	content, err := os.ReadFile(install.Path("manifests/monitoring/rules.yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	hurried := regexp.MustCompile(`(?m)^    for: \d+m$`).ReplaceAllString(string(content), "    for: 1s")
	hurried = strings.ReplaceAll(hurried, "_oldest_reservation_seconds) > 120", "_oldest_reservation_seconds) > 3")
	if strings.Count(hurried, "for: 1s") < 5 || !strings.Contains(hurried, "_seconds) > 3") {
		tb.Fatal("the rules do not look as expected any more")
	}
	p := &prometheus{address: fmt.Sprintf("127.0.0.1:%d", framework.FreePort(tb)), targets: write("targets.json", "[]")}
	config := write("prometheus.yaml", fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%s]
scrape_configs:
- job_name: berth-scheduler
  scheme: https
  tls_config: {insecure_skip_verify: true}
  authorization: {credentials_file: %s}
  file_sd_configs: [{files: [%s], refresh_interval: 1s}]
`, write("rules.yaml", hurried), write("token", strings.TrimSpace(token)), p.targets))
	framework.StartProcess(tb, tool(tb, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address)
	return p
}

// scrape replaces what is scraped: the schedulers by their job.
func (p *prometheus) scrape(tb testing.TB, schedulers map[string]*framework.Scheduler) {
	tb.Helper()
	groups := []any{}
	for job, scheduler := range schedulers {
		groups = append(groups, map[string]any{"targets": []string{scheduler.Address()}, "labels": map[string]string{"job": job}})
	}
	content, err := json.Marshal(groups)
	if err != nil {
		tb.Fatal(err)
	}
	// Renamed into place: Prometheus watches the file.
	if err := os.WriteFile(p.targets+".new", content, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(p.targets+".new", p.targets); err != nil {
		tb.Fatal(err)
	}
}

// get asks the HTTP API of Prometheus.
func (p *prometheus) get(tb testing.TB, path string, into any) error {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, "http://"+p.address+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}

// firing returns the names of the alerts that fire.
func (p *prometheus) firing(tb testing.TB) ([]string, error) {
	tb.Helper()
	var data struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	if err := p.get(tb, "/api/v1/alerts", &data); err != nil {
		return nil, err
	}
	names := []string{}
	for _, alert := range data.Alerts {
		if alert.State == "firing" && !slices.Contains(names, alert.Labels["alertname"]) {
			names = append(names, alert.Labels["alertname"])
		}
	}
	slices.Sort(names)
	return names, nil
}

// waitFiring waits until exactly these alerts fire.
func (p *prometheus) waitFiring(tb testing.TB, want ...string) {
	tb.Helper()
	want = slices.Sorted(slices.Values(want))
	framework.WaitForCondition(tb, framework.WaitTimeout, fmt.Sprintf("the alerts %q, and no other, to fire", want), func() (bool, error) {
		got, err := p.firing(tb)
		return err == nil && slices.Equal(want, got), fmt.Errorf("%q fire, error %w", got, err)
	})
}

// query returns how many series an expression gives.
func (p *prometheus) query(tb testing.TB, expression string) (int, error) {
	tb.Helper()
	series, err := p.series(tb, expression)
	return len(series), err
}

// series returns what an expression gives: each series as Prometheus writes its labels, with
// its value.
func (p *prometheus) series(tb testing.TB, expression string) (map[string]string, error) {
	tb.Helper()
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := p.get(tb, "/api/v1/query?query="+url.QueryEscape(expression), &data); err != nil {
		return nil, err
	}
	series := map[string]string{}
	for _, result := range data.Result {
		var labels []string
		for _, name := range slices.Sorted(maps.Keys(result.Metric)) {
			if name != "__name__" {
				labels = append(labels, name+"="+result.Metric[name])
			}
		}
		series[strings.Join(labels, ", ")] = fmt.Sprint(result.Value[1])
	}
	return series, nil
}

// dashboardQueries are the expressions of the dashboard by panel, with all instances and
// profiles chosen.
func dashboardQueries(tb testing.TB) map[string][]string {
	tb.Helper()
	_, queries := dashboardPanels(tb)
	return queries
}

// dashboardPanels are the panels of the dashboard in their order, and the expressions of
// each.
func dashboardPanels(tb testing.TB) (titles []string, queries map[string][]string) {
	tb.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	content, err := os.ReadFile(install.Path("manifests/monitoring/dashboard.json"))
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		tb.Fatal(err)
	}
	chosen := strings.NewReplacer("$job", ".*", "$profile", ".*", "$__rate_interval", "1m", "$__range", "5m")
	queries = map[string][]string{}
	for _, panel := range dashboard.Panels {
		if len(panel.Targets) > 0 {
			titles = append(titles, panel.Title)
		}
		for _, target := range panel.Targets {
			queries[panel.Title] = append(queries[panel.Title], chosen.Replace(target.Expr))
		}
	}
	return titles, queries
}

// logDashboard logs the data of the dashboard as the table of the README has it: of each
// panel how many series there are, and the first of each query.
func (p *prometheus) logDashboard(t *testing.T) {
	t.Helper()
	var table strings.Builder
	titles, queries := dashboardPanels(t)
	for _, title := range titles {
		count := 0
		var shown []string
		for _, expression := range queries[title] {
			series, err := p.series(t, expression)
			if err != nil {
				t.Fatal(err)
			}
			count += len(series)
			for _, labels := range slices.Sorted(maps.Keys(series))[:min(1, len(series))] {
				value, err := strconv.ParseFloat(series[labels], 64)
				if err != nil {
					t.Fatal(err)
				}
				shown = append(shown, strings.TrimSpace(fmt.Sprintf("%s %.4g", labels, value)))
			}
		}
		fmt.Fprintf(&table, "| %s | %d | %s |\n", title, count, strings.Join(shown, "; "))
	}
	t.Logf("the dashboard's data:\n%s", table.String())
}

// TestDashboardInREADME: the README has a row of data for each panel.
func TestDashboardInREADME(t *testing.T) {
	content, err := os.ReadFile(install.Path("manifests/monitoring/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	titles, _ := dashboardPanels(t)
	for _, title := range titles {
		if !strings.Contains(string(content), "\n| "+title+" | ") {
			t.Errorf("no row for panel %q", title)
		}
	}
}

// rules are the records and alerts of rules.yaml.
func rules(tb testing.TB) (records, alerts []string) {
	tb.Helper()
	content, err := os.ReadFile(install.Path("manifests/monitoring/rules.yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Record, Alert string
				Annotations   map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		tb.Fatal(err)
	}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Record != "" {
				records = append(records, rule.Record)
				continue
			}
			alerts = append(alerts, rule.Alert)
			if want := "manifests/monitoring/runbooks/" + rule.Alert + ".md"; !strings.HasSuffix(rule.Annotations["runbook_url"], "/"+want) {
				tb.Errorf("alert %s: runbook_url is %q, want %s", rule.Alert, rule.Annotations["runbook_url"], want)
			} else if _, err := os.Stat(install.Path(want)); err != nil {
				tb.Errorf("alert %s: %v", rule.Alert, err)
			}
		}
	}
	return records, alerts
}

// promtool finds nothing wrong with the rules, and their unit tests pass. Each alert has a
// unit test in which it fires.
func TestRules(t *testing.T) {
	promtool := tool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = install.Path("manifests/monitoring")
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, output)
		}
	}
	tests, err := os.ReadFile(install.Path("manifests/monitoring/rules_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, alerts := rules(t)
	for _, alert := range alerts {
		if !strings.Contains(string(tests), "/runbooks/"+alert+".md") {
			t.Errorf("rules_test.yaml has no case in which %s fires", alert)
		}
	}
	runbooks, err := os.ReadDir(install.Path("manifests/monitoring/runbooks"))
	if err != nil || len(runbooks) != len(alerts) {
		t.Errorf("%d runbooks for %d alerts, error %v", len(runbooks), len(alerts), err)
	}
}

// What the monitoring README gives to Prometheus is a configuration.
func TestPrometheusConfiguration(t *testing.T) {
	promtool := tool(t, "promtool")
	content, err := os.ReadFile(install.Path("manifests/monitoring/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	config := yamlBlock.FindStringSubmatch(string(content))
	if config == nil {
		t.Fatal("no configuration")
	}
	dir := t.TempDir()
	for _, name := range []string{"rules.yaml", "prometheus.yaml"} {
		// Debian builds Prometheus without service discovery in Kubernetes.
		text := regexp.MustCompile(`(?m)^  kubernetes_sd_configs:\n  - role: pod\n    namespaces: \{.*\}\n`).ReplaceAll([]byte(config[1]), nil)
		if name == "rules.yaml" {
			if text, err = os.ReadFile(install.Path("manifests/monitoring/rules.yaml")); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Syntax: the token's file is a pod's.
	if output, err := exec.CommandContext(t.Context(), promtool, "check", "config", "--syntax-only", filepath.Join(dir, "prometheus.yaml")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
