// franz-go: it has no position, so a program takes that of the last record, markers included, which it may ask to be given.
// Reads and answers as readers/__init__.py says.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type read struct {
	Topic  string  `json:"topic"`
	Level  string  `json:"level"`
	Offset int64   `json:"offset"`
	End    int64   `json:"end"`
	Group  *string `json:"group"`
	IdleS  float64 `json:"idle_s"`
}

type asked struct {
	Bootstrap string `json:"bootstrap"`
	Reads     []read `json:"reads"`
}

type answer struct {
	Records  [][]any `json:"records"`
	Position int64   `json:"position"`
	AtEnd    bool    `json:"at_end"`
}

func main() {
	var all asked
	if err := json.NewDecoder(os.Stdin).Decode(&all); err != nil {
		fail(err)
	}
	out := json.NewEncoder(os.Stdout)
	for _, wanted := range all.Reads {
		found, err := all.read(wanted)
		if err != nil {
			fail(err)
		}
		if err := out.Encode(found); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func (all asked) read(wanted read) (answer, error) {
	found := answer{Records: [][]any{}, Position: wanted.Offset, AtEnd: wanted.Offset >= wanted.End}
	level := kgo.ReadUncommitted()
	if wanted.Level == "read_committed" {
		level = kgo.ReadCommitted()
	}
	ctx := context.Background()
	options := []kgo.Opt{
		kgo.SeedBrokers(all.Bootstrap),
		kgo.FetchIsolationLevel(level),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.KeepControlRecords(),
	}
	if wanted.Group != nil {
		ctx = context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", true)
		options = append(options, kgo.WithContext(ctx), kgo.ConsumerGroup(*wanted.Group), kgo.ConsumeTopics(wanted.Topic),
			kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	} else {
		at := map[int32]kgo.Offset{0: kgo.NewOffset().At(wanted.Offset)}
		options = append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{wanted.Topic: at}))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return found, err
	}
	defer client.Close()
	idle := time.Duration(wanted.IdleS * float64(time.Second))
	for !found.AtEnd {
		polling, cancel := context.WithTimeout(context.Background(), idle)
		fetches := client.PollFetches(polling)
		cancel()
		for _, each := range fetches.Errors() {
			if errors.Is(each.Err, context.DeadlineExceeded) {
				return found, nil
			}
			return found, each.Err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			found.Position = record.Offset + 1
			if !record.Attrs.IsControl() {
				found.Records = append(found.Records, []any{record.Offset, text(record.Key), text(record.Value)})
			}
		})
		found.AtEnd = found.Position >= wanted.End
	}
	return found, nil
}

func text(data []byte) any {
	if data == nil {
		return nil
	}
	return string(data)
}
