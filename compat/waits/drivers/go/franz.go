package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var franz = library{franzConsume, franzProduce, franzAdmin}

type franzClient struct {
	*kgo.Client
	transactional bool
}

func franzConsume(name, bootstrap, topic, group, protocol, reset string, heartbeat time.Duration) (client, error) {
	ctx := context.Background()
	if protocol == "consumer" {
		ctx = context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", true)
	}
	owned := 0
	count := func(by int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			owned += by * len(changed[topic])
			say(name, "assigned", owned)
		}
	}
	at := kgo.NewOffset().AtStart()
	if reset == "latest" {
		at = kgo.NewOffset().AtEnd()
	}
	options := []kgo.Opt{kgo.WithContext(ctx), kgo.SeedBrokers(bootstrap), kgo.ClientID(name), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(at), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.OnPartitionsAssigned(count(1)), kgo.OnPartitionsRevoked(count(-1)), kgo.OnPartitionsLost(count(-1))}
	if heartbeat > 0 {
		options = append(options, kgo.HeartbeatInterval(heartbeat))
	}
	made, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			fetches := made.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachRecord(func(record *kgo.Record) { say(name, "record", string(record.Value)) })
		}
	}()
	return &franzClient{Client: made}, nil
}

func franzProduce(name, bootstrap string, transactional bool) (client, error) {
	options := []kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.ClientID(name)}
	if transactional {
		options = append(options, kgo.TransactionalID(name))
	}
	made, err := kgo.NewClient(options...)
	return &franzClient{made, transactional}, err
}

func franzAdmin(bootstrap string) (client, error) {
	made, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	return &franzClient{Client: made}, err
}

func (one *franzClient) send(topic, value string) error {
	ctx := context.Background()
	if one.transactional {
		if err := one.BeginTransaction(); err != nil {
			return err
		}
	}
	err := one.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr()
	if err == nil && one.transactional {
		err = one.EndTransaction(ctx, kgo.TryCommit)
	}
	return err
}

func (one *franzClient) create(topic string) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, 1, 1
	request.Topics, request.TimeoutMillis = append(request.Topics, wanted), 30_000
	answer, err := request.RequestWith(context.Background(), one.Client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.Topics[0].ErrorCode)
}

func (one *franzClient) close() error {
	one.Close()
	return nil
}
