package table

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A broker for tests: `ottla dev` as a child, and its control API.
type ottla struct {
	bootstrap, admin string
	process          *exec.Cmd
}

var broker ottla

func TestMain(m *testing.M) {
	if err := broker.start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = broker.process.Process.Signal(os.Interrupt)
	_ = broker.process.Wait()
	os.Exit(code)
}

func (b *ottla) start() error {
	command := os.Getenv("OTTLA")
	if command == "" {
		command = "ottla"
	}
	b.process = exec.Command(command, "dev", "--listener", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	b.process.Stderr = os.Stderr
	output, err := b.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := b.process.Start(); err != nil {
		return err
	}
	ready, control := regexp.MustCompile(`^ready (\S+)`), regexp.MustCompile(`^control +(http:\S+)`)
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if found := ready.FindStringSubmatch(lines.Text()); found != nil {
			b.bootstrap = found[1]
		}
		if found := control.FindStringSubmatch(lines.Text()); found != nil {
			b.admin = found[1]
			go io.Copy(io.Discard, output)
			return nil
		}
	}
	return fmt.Errorf("ottla dev did not start")
}

type object map[string]any

func (b *ottla) call(t *testing.T, method, path string, body object, answer any) {
	t.Helper()
	var content io.Reader
	if method != http.MethodGet {
		if body == nil {
			body = object{}
		}
		text, _ := json.Marshal(body)
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, b.admin+path, content)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	if answer != nil {
		if err := json.Unmarshal(text, answer); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *ottla) post(t *testing.T, path string, body object) {
	t.Helper()
	b.call(t, http.MethodPost, path, body, nil)
}

type fault struct {
	ID   int `json:"fault_id"`
	Hits int `json:"hits"`
}

func (b *ottla) fault(t *testing.T, declaration object) (declared fault) {
	t.Helper()
	b.call(t, http.MethodPost, "/v1/faults", declaration, &declared)
	return declared
}

func (b *ottla) hits(t *testing.T, declared fault) int {
	t.Helper()
	b.call(t, http.MethodGet, fmt.Sprintf("/v1/faults/%d", declared.ID), nil, &declared)
	return declared.Hits
}

func (b *ottla) topics(t *testing.T) []string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return topics.Names()
}

func (b *ottla) createTopic(t *testing.T, name string, configs map[string]string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	pointers := map[string]*string{}
	for name, value := range configs {
		pointers[name] = kadm.StringPtr(value)
	}
	if _, err := kadm.NewClient(client).CreateTopic(context.Background(), 1, 1, pointers, name); err != nil {
		t.Fatal(err)
	}
}
