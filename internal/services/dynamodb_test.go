package services

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// tablesOf is a client that looks at no credentials.
func tablesOf(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: &endpoint, Region: "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
}

func newTable(ctx context.Context, client *dynamodb.Client, name string) error {
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	})
	return err
}

func TestDynamoDBRestarts(t *testing.T) {
	t.Parallel()
	NeedServers(t)
	s, err := StartDynamoDB(t.Context())
	if errors.Is(err, ErrNoDynamoDB) {
		Missing(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, s) })
	client := tablesOf(s.Endpoint())
	key := map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "kept"}}
	err = newTable(t.Context(), client, "kept")
	if err == nil {
		_, err = client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("kept"), Item: key})
	}
	if err != nil {
		t.Fatal(err)
	}
	restarts(t, s.Server, func() {
		out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("kept"), Key: key})
		if err != nil || out.Item == nil {
			t.Errorf("after a restart: %v, %v", out, err)
		}
	})
}

func TestSharedDynamoDB(t *testing.T) {
	t.Parallel()
	endpoint, name := DynamoDB(t), Name(t)
	if again := DynamoDB(t); again != endpoint {
		t.Errorf("two servers: %s and %s", endpoint, again)
	}
	if endpoint == AWS {
		t.Skip("an account has tables to be waited for")
	}
	if err := newTable(t.Context(), tablesOf(endpoint), name); err != nil {
		t.Fatal(err)
	}
	if _, err := tablesOf(endpoint).DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
		t.Error(err)
	}
}

func TestNamedDynamoDB(t *testing.T) {
	t.Setenv(EnvUnit, "") // this test asks no server that answers
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{"localhost:8000", "http://" + loopback(ports[0])} {
		t.Setenv(EnvDynamoDB, named)
		if got := record(t, func(tb testing.TB) { DynamoDB(tb) }); !strings.Contains(got.failed, EnvDynamoDB+"="+named) {
			t.Errorf("%s: %q", named, got.failed)
		}
	}
	t.Setenv(EnvDynamoDB, AWS)
	if endpoint := DynamoDB(t); endpoint != AWS {
		t.Errorf("want aws, got %s", endpoint)
	}
}

// What npm would install beside the lock, or twice, is not taken.
func TestOneBinary(t *testing.T) {
	packages, into := t.TempDir(), t.TempDir()
	put := func(name string) {
		path := filepath.Join(packages, name, "program")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	take := oneBinary("program")
	if err := take(packages, into); err == nil || !strings.Contains(err.Error(), "want one program program") {
		t.Errorf("none: %v", err)
	}
	put("a")
	if err := take(packages, into); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(into, "program")); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("not to be run: %v, %v", info, err)
	}
	put("a")
	put("b")
	if err := take(packages, into); err == nil {
		t.Error("one of two was taken")
	}
}

// One line says that npm is missing, and that a running server will do as well.
func TestMissingNPM(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	_, err := StartDynamoDB(t.Context())
	if errors.Is(err, ErrNoDynamoDB) {
		Missing(t, err)
	}
	missing, ok := errors.AsType[*MissingToolError](err)
	if !ok || !strings.Contains(missing.Error(), "npm not found: install Node.js") || !strings.Contains(missing.Error(), EnvDynamoDB) {
		t.Errorf("got %v", err)
	}
}
