// Calls of franz-go's registry client, each line `CALL<tab>ok` or `CALL<tab>FAIL reason`: client URL
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/twmb/franz-go/pkg/sr"
)

type order struct {
	Total int `json:"total"`
}

const (
	one   = `{"type":"record","name":"R","fields":[{"name":"x","type":"int"}]}`
	two   = `{"type":"record","name":"R","fields":[{"name":"x","type":"int"},{"name":"y","type":"int","default":0}]}`
	needy = `{"type":"record","name":"R","fields":[{"name":"x","type":"int"},{"name":"z","type":"int"}]}`
	item  = "syntax = \"proto3\";\npackage shop;\n\nmessage Item {\n  string name = 1;\n}\n"
	cart  = "syntax = \"proto3\";\npackage shop;\n\nimport \"item.proto\";\n\nmessage Cart {\n  repeated .shop.Item items = 1;\n}\n"
)

func call(name string, work func() error) {
	if err := work(); err != nil {
		fmt.Printf("%s\tFAIL %v\n", name, err)
		return
	}
	fmt.Printf("%s\tok\n", name)
}

func want(found, expected any) error {
	if !reflect.DeepEqual(found, expected) {
		return fmt.Errorf("expected %v, found %v", expected, found)
	}
	return nil
}

func main() {
	ctx := context.Background()
	client, err := sr.NewClient(sr.URLs(os.Args[1]))
	if err != nil {
		panic(err)
	}
	var made sr.SubjectSchema
	call("register Avro", func() error {
		var err error
		if made, err = client.CreateSchema(ctx, "g-value", sr.Schema{Schema: one}); err != nil {
			return err
		}
		_, err = client.CreateSchema(ctx, "g-value", sr.Schema{Schema: two})
		return errors.Join(err, want(made.Version, 1))
	})
	call("write and read", func() error {
		var serde sr.Serde
		serde.Register(made.ID, order{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
		data, err := serde.Encode(order{3})
		if err != nil {
			return err
		}
		var read order
		return errors.Join(serde.Decode(data, &read), want(read.Total, 3))
	})
	call("schema by id", func() error {
		found, err := client.SchemaByID(ctx, made.ID)
		text, err2 := client.SchemaTextByID(ctx, made.ID)
		return errors.Join(err, err2, want(found.Schema, one), want(text, one))
	})
	call("schema by version", func() error {
		found, err := client.SchemaByVersion(ctx, "g-value", -1)
		text, err2 := client.SchemaTextByVersion(ctx, "g-value", 1)
		return errors.Join(err, err2, want(found.Version, 2), want(text, one))
	})
	call("id of a schema", func() error {
		found, err := client.LookupSchema(ctx, "g-value", sr.Schema{Schema: one})
		return errors.Join(err, want(found.ID, made.ID))
	})
	call("subjects, versions, types, contexts", func() error {
		subjects, err := client.Subjects(ctx)
		versions, err2 := client.SubjectVersions(ctx, "g-value")
		types, err3 := client.SupportedTypes(ctx)
		contexts, err4 := client.Contexts(ctx)
		schemas, err5 := client.Schemas(ctx, "g-value")
		all, err6 := client.AllSchemas(ctx)
		return errors.Join(err, err2, err3, err4, err5, err6, want(len(subjects) > 0, true), want(versions, []int{1, 2}),
			want(len(types), 3), want(contexts[0], "."), want(len(schemas), 2), want(len(all) >= 2, true))
	})
	call("uses of an id", func() error {
		subjects, err := client.SubjectsByID(ctx, made.ID)
		versions, err2 := client.SchemaVersionsByID(ctx, made.ID)
		_, err3 := client.SchemaUsagesByID(ctx, made.ID)
		return errors.Join(err, err2, err3, want(subjects, []string{"g-value"}), want(len(versions), 1))
	})
	call("compatibility", func() error {
		good, err := client.CheckCompatibility(ctx, "g-value", -1, sr.Schema{Schema: one})
		bad, err2 := client.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), "g-value", -1, sr.Schema{Schema: needy})
		return errors.Join(err, err2, want(good.Is, true), want(bad.Is, false), want(len(bad.Messages) > 0, true))
	})
	call("incompatible schema", func() error {
		_, err := client.CreateSchema(ctx, "g-value", sr.Schema{Schema: needy})
		var refused *sr.ResponseError
		if !errors.As(err, &refused) {
			return fmt.Errorf("no error of the registry: %v", err)
		}
		return want(refused.ErrorCode, 409)
	})
	call("levels", func() error {
		set := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, "g-value")[0]
		found := client.Compatibility(ctx, "g-value")[0]
		reset := client.ResetCompatibility(ctx, "g-value")[0]
		global := client.Compatibility(ctx)[0]
		return errors.Join(set.Err, found.Err, reset.Err, global.Err, want(found.Level, sr.CompatFull),
			want(global.Level, sr.CompatBackward))
	})
	call("modes", func() error {
		set := client.SetMode(ctx, sr.ModeReadOnly, "g-value")[0]
		found := client.Mode(ctx, "g-value")[0]
		_, refused := client.CreateSchema(ctx, "g-value", sr.Schema{Schema: `"int"`})
		reset := client.ResetMode(ctx, "g-value")[0]
		return errors.Join(set.Err, found.Err, reset.Err, want(found.Mode, sr.ModeReadOnly), want(refused != nil, true))
	})
	call("references", func() error {
		_, err := client.CreateSchema(ctx, "item", sr.Schema{Schema: item, Type: sr.TypeProtobuf})
		reference := sr.SchemaReference{Name: "item.proto", Subject: "item", Version: 1}
		_, err2 := client.CreateSchema(ctx, "cart", sr.Schema{
			Schema: cart, Type: sr.TypeProtobuf, References: []sr.SchemaReference{reference},
		})
		found, err3 := client.SchemaReferences(ctx, "item", 1)
		if len(found) != 1 {
			return fmt.Errorf("expected one reference, found %v (%v, %v, %v)", found, err, err2, err3)
		}
		return errors.Join(err, err2, err3, want(found[0].Subject, "cart"))
	})
	call("ids of a guid", func() error {
		found, err := client.SchemaByVersion(ctx, "g-value", 1)
		if err != nil {
			return err
		}
		by, err2 := client.SchemaByGUID(ctx, found.GUID)
		ids, err3 := client.SchemaIDsByGUID(ctx, found.GUID)
		return errors.Join(err2, err3, want(by.Schema.Schema, one), want(len(ids), 1))
	})
	call("deletions", func() error {
		err := client.DeleteSchema(ctx, "g-value", 2, sr.SoftDelete)
		err2 := client.DeleteSchema(ctx, "g-value", 2, sr.HardDelete)
		versions, err3 := client.DeleteSubject(ctx, "g-value", sr.SoftDelete)
		_, err4 := client.DeleteSubject(ctx, "g-value", sr.HardDelete)
		return errors.Join(err, err2, err3, err4, want(versions, []int{1}))
	})
}
