// Watermill: a group of consumers of a stream, which claim the entries of consumers that died.
//
//	watermill_job work URL NAME | publish URL
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	client := redis.NewClient(must(redis.ParseURL(os.Args[2])))
	publisher := must(redisstream.NewPublisher(redisstream.PublisherConfig{Client: client}, nil))
	publish := func(topic string, text string) {
		if err := publisher.Publish(topic, message.NewMessage(watermill.NewUUID(), []byte(text))); err != nil {
			panic(err)
		}
	}
	if os.Args[1] == "publish" {
		for number := range must(strconv.Atoi(os.Getenv("JOBS"))) {
			publish("in", strconv.Itoa(number))
		}
		return
	}
	subscriber := must(redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client:        client,
		ConsumerGroup: "workers",
		Consumer:      os.Args[3],
		OldestId:      "0",
		ClaimInterval: 200 * time.Millisecond,
		MaxIdleTime:   500 * time.Millisecond,
	}, nil))
	for each := range must(subscriber.Subscribe(context.Background(), "in")) {
		time.Sleep(20 * time.Millisecond)
		number := must(strconv.Atoi(string(each.Payload)))
		publish("out", fmt.Sprintf("square:%d:%d", number, number*number))
		each.Ack()
	}
}
