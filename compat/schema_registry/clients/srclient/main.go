// Calls of srclient, each line `CALL<tab>ok` or `CALL<tab>FAIL reason`: client URL
package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/riferrei/srclient"
)

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

func want(found, expected interface{}) error {
	if !reflect.DeepEqual(found, expected) {
		return fmt.Errorf("expected %v, found %v", expected, found)
	}
	return nil
}

func main() {
	client := srclient.CreateSchemaRegistryClient(os.Args[1])
	client.CachingEnabled(false)
	client.CodecCreationEnabled(true) // for Avro only
	var made *srclient.Schema
	call("register Avro", func() error {
		var err error
		if made, err = client.CreateSchema("c-value", one, srclient.Avro); err != nil {
			return err
		}
		_, err = client.CreateSchema("c-value", two, srclient.Avro)
		return err
	})
	call("write and read", func() error {
		data, err := made.Codec().BinaryFromNative(nil, map[string]interface{}{"x": 3})
		if err != nil {
			return err
		}
		read, _, err := made.Codec().NativeFromBinary(data)
		return errors.Join(err, want(read, map[string]interface{}{"x": int32(3)}))
	})
	call("schema by id, by version, latest", func() error {
		byID, err := client.GetSchema(made.ID())
		byVersion, err2 := client.GetSchemaByVersion("c-value", 1)
		latest, err3 := client.GetLatestSchema("c-value")
		if err := errors.Join(err, err2, err3); err != nil {
			return err
		}
		return errors.Join(want(byID.Schema(), one), want(byVersion.ID(), made.ID()), want(latest.Schema(), two))
	})
	call("look up", func() error {
		found, err := client.LookupSchema("c-value", one, srclient.Avro)
		if err != nil {
			return err
		}
		return want(found.Version(), 1)
	})
	call("subjects and versions", func() error {
		subjects, err := client.GetSubjects()
		versions, err2 := client.GetSchemaVersions("c-value")
		ofID, err3 := client.GetSubjectVersionsById(made.ID())
		return errors.Join(err, err2, err3, want(subjects, []string{"c-value"}), want(versions, []int{1, 2}), want(len(ofID), 1))
	})
	call("JSON Schema", func() error {
		client.CodecCreationEnabled(false)
		if _, err := client.CreateSchema("c-json", `{"type":"object"}`, srclient.Json); err != nil {
			return err
		}
		found, err := client.GetLatestSchema("c-json")
		if err != nil {
			return err
		}
		return want(found.Version(), 1)
	})
	call("Protobuf with a reference", func() error {
		if _, err := client.CreateSchema("c-item", item, srclient.Protobuf); err != nil {
			return err
		}
		reference := srclient.Reference{Name: "item.proto", Subject: "c-item", Version: 1}
		made, err := client.CreateSchema("c-cart", cart, srclient.Protobuf, reference)
		if err != nil {
			return err
		}
		found, err := client.GetSchema(made.ID())
		if err != nil {
			return err
		}
		return want(found.References(), []srclient.Reference{reference})
	})
	call("compatibility", func() error {
		yes, err := client.IsSchemaCompatible("c-value", two, "latest", srclient.Avro)
		no, err2 := client.IsSchemaCompatible("c-value", needy, "latest", srclient.Avro)
		_, refused := client.CreateSchema("c-value", needy, srclient.Avro)
		return errors.Join(err, err2, want(yes, true), want(no, false), want(refused != nil, true))
	})
	call("levels", func() error {
		global, err := client.GetGlobalCompatibilityLevel()
		if err != nil {
			return err
		}
		if _, err := client.ChangeSubjectCompatibilityLevel("c-value", srclient.Full); err != nil {
			return err
		}
		own, err := client.GetCompatibilityLevel("c-value", true)
		if err != nil {
			return err
		}
		_, err = client.DeleteSubjectCompatibilityLevel("c-value")
		return errors.Join(err, want(*global, srclient.Backward), want(*own, srclient.Full))
	})
	call("deletions", func() error {
		err := client.DeleteSubjectByVersion("c-value", 1, false)
		err2 := client.DeleteSubject("c-value", false)
		err3 := client.DeleteSubject("c-value", true)
		subjects, err4 := client.GetSubjectsIncludingDeleted()
		return errors.Join(err, err2, err3, err4, want(len(subjects), 3))
	})
	call("a schema that does not exist", func() error {
		_, err := client.GetSchema(99)
		return want(err != nil, true)
	})
}
