package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"queen/cmd/queen/config"
)

const threeNodes = "../../deploy/compose/three-node/"

// composeFile is what a compose file may say; anything else in ours is an error.
type composeFile struct {
	Name     string                    `yaml:"name"`
	Node     yaml.Node                 `yaml:"x-node"`
	Env      yaml.Node                 `yaml:"x-env"`
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]struct{}       `yaml:"volumes"`
}

type composeService struct {
	Image           string            `yaml:"image"`
	Restart         string            `yaml:"restart"`
	StopGracePeriod string            `yaml:"stop_grace_period"`
	Healthcheck     map[string]any    `yaml:"healthcheck"`
	Build           map[string]string `yaml:"build"`
	Hostname        string            `yaml:"hostname"`
	Environment     map[string]string `yaml:"environment"`
	Ports           []string          `yaml:"ports"`
	Volumes         []string          `yaml:"volumes"`
}

func readCompose(t *testing.T) (composeFile, string) {
	t.Helper()
	text, err := os.ReadFile(threeNodes + "compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file composeFile
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	return file, string(text)
}

// TestComposeFileIsTheSpecified holds compose.yaml against operations 1.4.
func TestComposeFileIsTheSpecified(t *testing.T) {
	file, _ := readCompose(t)
	if file.Name != "queen-cluster" || len(file.Services) != 3 || !slices.Equal(slices.Sorted(maps.Keys(file.Volumes)), []string{"queen-1", "queen-2", "queen-3"}) {
		t.Fatalf("name %q, services %v, volumes %v", file.Name, slices.Sorted(maps.Keys(file.Services)), file.Volumes)
	}
	for n := 1; n <= 3; n++ {
		name := fmt.Sprintf("queen-%d", n)
		want := composeService{
			Image: "${QUEEN_IMAGE:-queen}:${QUEEN_VERSION:-latest}", Restart: "unless-stopped", StopGracePeriod: "60s",
			Healthcheck: map[string]any{"test": []any{"CMD", "/queen", "health"}, "interval": "5s", "timeout": "3s", "retries": 3, "start_period": "60s"},
			Hostname:    name,
			Environment: map[string]string{
				"QUEEN_RAFT_REPLICATOR":     "raft",
				"QUEEN_RAFT_PEERS":          "1=queen-1:7400/queen-1:6632,2=queen-2:7400/queen-2:6632,3=queen-3:7400/queen-3:6632",
				"QUEEN_RAFT_TOKEN":          "${QUEEN_RAFT_TOKEN:?put QUEEN_RAFT_TOKEN in .env next to compose.yaml}",
				"QUEEN_RAFT_TOKEN_PREVIOUS": "${QUEEN_RAFT_TOKEN_PREVIOUS:-}",
				"QUEEN_RAFT_DIR":            "/var/lib/queen/raft",
				"QUEEN_RAFT_NODE_ID":        fmt.Sprint(n),
			},
			Ports:   []string{fmt.Sprintf("127.0.0.1:%d6632:6632", n)},
			Volumes: []string{name + ":/var/lib/queen/raft"},
		}
		if n == 1 {
			want.Build = map[string]string{"context": "../../..", "dockerfile": "deploy/image/Dockerfile"}
		}
		if got := fmt.Sprintf("%+v", file.Services[name]); got != fmt.Sprintf("%+v", want) {
			t.Errorf("%s is\n%s\nwant\n%+v", name, got, want)
		}
	}
}

// TestComposeSettingsAreValid loads the settings of each service as its node would.
func TestComposeSettingsAreValid(t *testing.T) {
	file, text := readCompose(t)
	known := config.Names()
	// The two that Compose itself reads from .env.
	composeOnly := []string{"QUEEN_IMAGE", "QUEEN_VERSION"}
	for _, name := range regexp.MustCompile(`QUEEN_[A-Z_]+`).FindAllString(text, -1) {
		if !slices.Contains(known, name) && !slices.Contains(composeOnly, name) {
			t.Errorf("%s is no variable of this build", name)
		}
	}
	substitute := regexp.MustCompile(`\$\{(\w+):[-?]([^}]*)\}`)
	for name, service := range file.Services {
		var environ []string
		for variable, value := range service.Environment {
			value = substitute.ReplaceAllStringFunc(value, func(reference string) string {
				if strings.HasPrefix(reference, "${QUEEN_RAFT_TOKEN:?") {
					return strings.Repeat("0123456789abcdef", 4)
				}
				return substitute.FindStringSubmatch(reference)[2]
			})
			environ = append(environ, variable+"="+value)
		}
		cfg, err := config.Load(config.Input{Environ: environ, Host: config.Host{Hostname: service.Hostname}})
		if err != nil || len(cfg.Warnings()) > 0 {
			t.Errorf("%s: %v, warnings %v", name, err, cfg.Warnings())
		}
		self, found := cfg.Self()
		if !found || self.RaftAddress != service.Hostname+":7400" || self.HTTPAddress != service.Hostname+":6632" {
			t.Errorf("%s is node %v in the list of peers", name, self)
		}
		// The published port is the one that the node opens, and the raft port the one that the others dial.
		if cfg.RaftListen != "0.0.0.0:7400" || !strings.HasSuffix(service.Ports[0], fmt.Sprintf(":%d", cfg.Port)) {
			t.Errorf("%s listens on %s and port %d", name, cfg.RaftListen, cfg.Port)
		}
	}
}

// TestComposeFileSaysWhy keeps the comments that operations 1.4 asks for: the facts on top, and a reason where a line has none in itself.
func TestComposeFileSaysWhy(t *testing.T) {
	_, text := readCompose(t)
	opening, _, _ := strings.Cut(text, "\nname:")
	for _, fact := range []string{"127.0.0.1:N6632", "16632, 26632, 36632", "6632", "QUEEN_RAFT_TOKEN", "QUEEN_VERSION", "QUEEN_IMAGE", "raft ports are not published", "volume of its own"} {
		if !strings.Contains(opening, fact) {
			t.Errorf("the opening comment does not name %s", fact)
		}
	}
	lines := strings.Split(text, "\n")
	for _, setting := range []string{"stop_grace_period:", "healthcheck:", "start_period:", "QUEEN_RAFT_PEERS:", "QUEEN_RAFT_TOKEN_PREVIOUS:", "build:", "ports:"} {
		line := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), setting) })
		if line < 1 || !strings.HasPrefix(strings.TrimSpace(lines[line-1]), "# ") {
			t.Errorf("%s has no reason above it", setting)
		}
	}
}

// TestExampleEnvironmentNamesWhatComposeReads holds .env.example against compose.yaml.
func TestExampleEnvironmentNamesWhatComposeReads(t *testing.T) {
	_, text := readCompose(t)
	example, err := os.ReadFile(threeNodes + ".env.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, reference := range regexp.MustCompile(`\$\{(\w+)`).FindAllStringSubmatch(text, -1) {
		if !regexp.MustCompile(`(?m)^#?` + reference[1] + `=`).Match(example) {
			t.Errorf(".env.example does not name %s", reference[1])
		}
	}
	if !strings.Contains(string(example), "\nQUEEN_RAFT_TOKEN=\n") {
		t.Error("a token in an example is a token that many clusters share")
	}
}

// TestImageIsTheSpecified holds the Dockerfile against operations 1.1.
func TestImageIsTheSpecified(t *testing.T) {
	content, err := os.ReadFile("../../deploy/image/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for _, line := range []string{
		"FROM scratch AS empty", "USER 65532:65532", "EXPOSE 6632", `CMD ["/queen", "health"]`, `ENTRYPOINT ["/queen"]`, `CMD ["serve"]`,
		"COPY --from=compile /out/queen /queen", "COPY --from=compile --chown=65532:65532 /out/raft /var/lib/queen/raft",
		"CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH", "go build -trimpath", "--platform=$BUILDPLATFORM",
		"COPY --chown=65532:65532 raft /var/lib/queen/raft",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the Dockerfile does not hold %s", line)
		}
	}
	stages := regexp.MustCompile(`(?m)^FROM .*$`).FindAllString(text, -1)
	if len(stages) == 0 || stages[len(stages)-1] != "FROM empty" {
		t.Errorf("the last stage is %v, want the empty file system", stages)
	}
}
